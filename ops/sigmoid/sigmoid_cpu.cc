#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <torch/library.h>

#include "ops/sigmoid/sigmoid_arguments.h"
#include "ops/sigmoid/sigmoid_cpu_kernel.h"

namespace scramjet::ops {
namespace {

at::Tensor sigmoid_cpu(const at::Tensor& x) {
  static auto* const loop_for = SCRAMJET_FOR_THIS_CPU(sigmoid_loop);
  const at::ScalarType dtype = sigmoid_result_dtype(x);
  ElementwiseLoop* const loop = loop_for(dtype);
  if (x.scalar_type() == dtype && x.is_contiguous()) {
    // A TensorIterator costs more than a small tensor's arithmetic.
    at::Tensor result = at::detail::empty_cpu(x.sizes(), x.options());
    const auto bytes = static_cast<int64_t>(x.element_size());
    auto* const to = static_cast<char*>(result.mutable_data_ptr());
    auto* const from = static_cast<const char*>(x.const_data_ptr());
    at::parallel_for(0, x.numel(), at::internal::GRAIN_SIZE, [&](int64_t begin, int64_t end) {
      char* data[] = {to + begin * bytes, const_cast<char*>(from) + begin * bytes};
      const int64_t strides[] = {bytes, bytes, 0, 0};
      loop(data, strides, end - begin, 1);
    });
    return result;
  }
  at::Tensor result;
  auto iter = at::TensorIterator::unary_float_op(result, x);
  iter.for_each(loop);
  iter.cast_outputs();
  return iter.output();
}

at::Tensor sigmoid_backward_cpu(const at::Tensor& grad_output, const at::Tensor& output) {
  static auto* const loop_for = SCRAMJET_FOR_THIS_CPU(sigmoid_backward_loop);
  check_sigmoid_backward(grad_output, output);
  at::Tensor result;
  auto iter = at::TensorIterator::binary_op(result, grad_output, output);
  iter.for_each(loop_for(output.scalar_type()));
  return iter.output();
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, CPU, m) {
  m.impl("sigmoid", sigmoid_cpu);
  m.impl("sigmoid_backward", sigmoid_backward_cpu);
}

}  // namespace scramjet::ops
