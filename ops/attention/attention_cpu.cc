#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/SymIntArrayRef.h>
#include <torch/library.h>

#include <algorithm>

#include "ops/attention/attention_arguments.h"
#include "ops/attention/attention_cpu_kernel.h"
#include "ops/attention/attention_kernels.h"
#include "ops/attention/attention_operands.h"
#include "ops/attention/attention_tiles.h"
#include "runtime/output_memory.h"

namespace scramjet::ops {
namespace {

/// Memory of `size` elements of the type that is computed in for each of `count` workers.
class Workspace {
 public:
  Workspace(const AttentionArguments& call, int64_t count, int64_t size)
      : memory_(at::empty({count, size}, call.query.options().dtype(call.compute_dtype()))) {}

  char* of(int64_t i) const {
    return static_cast<char*>(memory_.mutable_data_ptr()) +
           i * memory_.stride(0) * memory_.element_size();
  }

 private:
  at::Tensor memory_;
};

at::Tensor empty_output(const AttentionArguments& call, at::IntArrayRef sizes) {
  const c10::SymDimVector strides = attention_strides(call, c10::fromIntArrayRefSlow(sizes));
  return runtime::allocate_output(sizes, C10_AS_INTARRAYREF_SLOW(strides),
                                  call.query.scalar_type());
}

/// Few queries: the keys of a head are split where there are not heads enough for the threads.
void decode(const AttentionArguments& call, const AttentionProblem& problem) {
  static const auto kernels_of = SCRAMJET_FOR_THIS_CPU(attention_decode_kernels);
  constexpr int64_t kUnitsOfAThread = 4;
  const AttentionDecodeCpuKernels kernels = kernels_of(call.query.scalar_type());
  const int64_t key_heads = problem.batch * problem.key_heads;
  const int64_t splits =
      std::clamp<int64_t>(tiles_of(kUnitsOfAThread * at::get_num_threads(), key_heads), 1,
                          std::max<int64_t>(tiles_of(problem.keys, kKeyRows), 1));
  const Workspace partial(call, key_heads * splits, decode_partial_size(problem));
  const Workspace scratch(call, at::get_num_threads(), decode_scratch_size(problem));
  const int64_t elements_of_a_unit =
      tiles_of(problem.keys, splits) * (problem.dim + problem.value_dim) + 1;
  at::parallel_for(0, key_heads * splits, tiles_of(at::internal::GRAIN_SIZE, elements_of_a_unit),
                   [&](int64_t begin, int64_t end) {
                     kernels.decode(problem, begin, end, splits, partial.of(0),
                                    scratch.of(at::get_thread_num()));
                   });
  kernels.join(problem, splits, partial.of(0), scratch.of(0));
}

void forward(const AttentionArguments& call, const AttentionProblem& problem) {
  static const auto kernels_of = SCRAMJET_FOR_THIS_CPU(attention_kernels);
  const AttentionCpuKernels kernels = kernels_of(call.query.scalar_type());
  const int64_t key_heads = problem.batch * problem.key_heads;
  const int64_t tiles = key_heads * tiles_of(problem.keys, kKeyRows);
  const Workspace packed(call, tiles, packed_tile_size(problem));
  at::parallel_for(0, tiles, 1, [&](int64_t begin, int64_t end) {
    kernels.pack(problem, begin, end, packed.of(0));
  });
  const Workspace scratch(call, at::get_num_threads(), forward_scratch_size(problem));
  at::parallel_for(
      0, key_heads * QueryRows(problem).block_count(), 1, [&](int64_t begin, int64_t end) {
        kernels.forward(problem, begin, end, packed.of(0), scratch.of(at::get_thread_num()));
      });
}

AttentionOutputs attention_cpu(const AttentionArguments& call) {
  check_attention(call);
  check_attention_starts(call);
  const at::IntArrayRef sizes = call.query.sizes();
  AttentionOutputs outputs{
      empty_output(call, {sizes[0], sizes[1], sizes[2], call.value.size(3)}),
      at::empty(sizes.slice(0, 3), call.query.options().dtype(call.compute_dtype()))};
  if (outputs.logsumexp.numel() == 0) return outputs;
  const AttentionOperands operands(call, outputs);
  (is_decoding(operands.problem()) ? decode : forward)(call, operands.problem());
  return outputs;
}

AttentionGradientOutputs attention_backward_cpu(const AttentionArguments& call,
                                                const AttentionResults& results) {
  static const auto kernels_of = SCRAMJET_FOR_THIS_CPU(attention_backward_kernels);
  check_attention_backward(call, results);
  check_attention_starts(call);
  AttentionGradientOutputs gradients{empty_output(call, call.query.sizes()),
                                     empty_output(call, call.key.sizes()),
                                     empty_output(call, call.value.sizes())};
  const at::Tensor delta =
      at::empty(results.logsumexp.sizes(), call.query.options().dtype(call.compute_dtype()));
  if (delta.numel() == 0 || call.key.size(2) == 0) {
    gradients.query.zero_();
    gradients.key.zero_();
    gradients.value.zero_();
    return gradients;
  }
  const AttentionBackwardOperands operands(call, results, gradients, delta);
  const AttentionProblem& problem = operands.problem();
  const AttentionBackwardCpuKernels kernels = kernels_of(call.query.scalar_type());
  const int64_t key_heads = problem.batch * problem.key_heads;
  const int64_t queries = delta.numel();
  // More parts than heads, each with sums of its own, where the heads don't keep all threads busy.
  const int64_t parts =
      std::min(tiles_of(problem.keys, kKeyRows), tiles_of(at::get_num_threads(), key_heads));
  const at::Tensor grad_queries = at::zeros({parts, queries, padded(problem.dim)}, delta.options());
  const auto grad_queries_of = [&](int64_t part) {
    return static_cast<char*>(grad_queries.mutable_data_ptr()) +
           part * grad_queries.stride(0) * grad_queries.element_size();
  };
  constexpr int64_t kQueriesOfAThread = 256;
  at::parallel_for(0, queries, kQueriesOfAThread, [&](int64_t begin, int64_t end) {
    kernels.make_delta(problem, operands.gradients(), begin, end);
  });
  const Workspace scratch(call, at::get_num_threads(), backward_scratch_size(problem));
  at::parallel_for(0, key_heads * parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      kernels.backward(problem, operands.gradients(), i / parts, i % parts, parts,
                       grad_queries_of(i % parts), scratch.of(at::get_thread_num()));
    }
  });
  at::parallel_for(0, queries, kQueriesOfAThread, [&](int64_t begin, int64_t end) {
    kernels.store_grad_queries(problem, operands.gradients(), begin, end, parts,
                               grad_queries_of(0));
  });
  return gradients;
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, CPU, m) {
  AttentionKernels<attention_cpu, attention_backward_cpu>::add_to(m);
}

}  // namespace scramjet::ops
