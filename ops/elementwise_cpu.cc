#include "ops/elementwise_cpu.h"

#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <c10/util/strides.h>

#include <array>

#include "runtime/output_memory.h"

namespace scramjet::ops {
namespace {

constexpr size_t kMaxOperands = 8;

bool all_contiguous(at::TensorList inputs) {
  for (const at::Tensor& x : inputs) {
    if (!x.is_contiguous()) return false;
  }
  return true;
}

/// A TensorIterator costs more than a small tensor's arithmetic.
void run_contiguous(ElementwiseLoop* loop, at::ArrayRef<at::Tensor*> outputs,
                    at::TensorList inputs) {
  const at::Tensor& like = inputs[0];
  const auto bytes = static_cast<int64_t>(like.element_size());
  std::array<char*, kMaxOperands> start{};
  const auto dense = c10::contiguous_strides(like.sizes());
  size_t operand = 0;
  for (at::Tensor* output : outputs) {
    *output = runtime::allocate_output(like.sizes(), dense, like.scalar_type());
    start[operand++] = static_cast<char*>(output->mutable_data_ptr());
  }
  for (const at::Tensor& input : inputs) {
    start[operand++] = const_cast<char*>(static_cast<const char*>(input.const_data_ptr()));
  }
  at::parallel_for(0, like.numel(), at::internal::GRAIN_SIZE, [&](int64_t begin, int64_t end) {
    std::array<char*, kMaxOperands> data;
    std::array<int64_t, 2 * kMaxOperands> strides{};
    for (size_t k = 0; k < operand; ++k) {
      data[k] = start[k] + begin * bytes;
      strides[k] = bytes;
    }
    loop(data.data(), strides.data(), end - begin, 1);
  });
}

at::TensorIterator build_iterator(at::ArrayRef<at::Tensor*> outputs, at::TensorList inputs) {
  at::TensorIteratorConfig config;
  for (const at::Tensor* output : outputs) config.add_owned_output(*output);
  for (const at::Tensor& input : inputs) config.add_owned_const_input(input);
  return config.build();
}

void run_strided(ElementwiseLoop* loop, at::ArrayRef<at::Tensor*> outputs, at::TensorList inputs) {
  at::TensorIterator iterator = build_iterator(outputs, inputs);
  // TensorIterator has chosen the strides, but takes fresh pages, which cost more than what is
  // computed into them. So far nothing has touched them.
  for (size_t k = 0; k < outputs.size(); ++k) {
    const at::Tensor& laid_out = iterator.output(static_cast<int64_t>(k));
    *outputs[k] =
        runtime::is_kept(laid_out.nbytes())
            ? runtime::allocate_output(laid_out.sizes(), laid_out.strides(), laid_out.scalar_type())
            : laid_out;
  }
  if (!outputs[0]->is_same(iterator.output(0))) iterator = build_iterator(outputs, inputs);
  iterator.for_each(loop);
}

void run(ElementwiseLoop* loop, at::ArrayRef<at::Tensor*> outputs, at::TensorList inputs) {
  TORCH_INTERNAL_ASSERT(outputs.size() + inputs.size() <= kMaxOperands);
  if (all_contiguous(inputs)) {
    run_contiguous(loop, outputs, inputs);
  } else {
    run_strided(loop, outputs, inputs);
  }
}

}  // namespace

at::Tensor run_elementwise(ElementwiseLoop* loop, at::TensorList inputs) {
  at::Tensor output;
  run(loop, {&output}, inputs);
  return output;
}

std::tuple<at::Tensor, at::Tensor> run_elementwise_pair(ElementwiseLoop* loop,
                                                        at::TensorList inputs) {
  at::Tensor first;
  at::Tensor second;
  run(loop, {&first, &second}, inputs);
  return {first, second};
}

}  // namespace scramjet::ops
