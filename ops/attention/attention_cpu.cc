#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/strides.h>
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
  return runtime::allocate_output(sizes, c10::contiguous_strides(sizes), call.query.scalar_type());
}

AttentionOutputs attention_cpu(const AttentionArguments& call) {
  static const auto kernels_of = SCRAMJET_FOR_THIS_CPU(attention_kernels);
  check_attention(call);
  const at::IntArrayRef sizes = call.query.sizes();
  const at::DimVector output_sizes = {sizes[0], sizes[1], sizes[2], call.value.size(3)};
  AttentionOutputs outputs{
      empty_output(call, output_sizes),
      at::empty(sizes.slice(0, 3), call.query.options().dtype(call.compute_dtype()))};
  if (outputs.logsumexp.numel() == 0) return outputs;
  const AttentionOperands operands(call, outputs);
  const AttentionProblem& problem = operands.problem();
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
  return outputs;
}

AttentionGradientOutputs attention_backward_cpu(const AttentionArguments& call,
                                                const AttentionResults& results) {
  static const auto kernels_of = SCRAMJET_FOR_THIS_CPU(attention_backward_kernels);
  check_attention_backward(call, results);
  const AttentionGradientOutputs gradients{empty_output(call, call.query.sizes()),
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
