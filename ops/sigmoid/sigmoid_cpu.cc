#include <ATen/TensorIterator.h>
#include <torch/library.h>

#include "ops/elementwise_cpu.h"
#include "ops/sigmoid/sigmoid_arguments.h"
#include "ops/sigmoid/sigmoid_cpu_kernel.h"

namespace scramjet::ops {
namespace {

at::Tensor sigmoid_cpu(const at::Tensor& x) {
  static auto* const loop_for = SCRAMJET_FOR_THIS_CPU(sigmoid_loop);
  const at::ScalarType dtype = sigmoid_result_dtype(x);
  if (x.scalar_type() == dtype) return run_elementwise(loop_for(dtype), x);
  // The iterator promotes integers, a buffer at a time.
  at::Tensor result;
  auto iter = at::TensorIterator::unary_float_op(result, x);
  iter.for_each(loop_for(dtype));
  iter.cast_outputs();
  return iter.output();
}

at::Tensor sigmoid_backward_cpu(const at::Tensor& grad_output, const at::Tensor& output) {
  static auto* const loop_for = SCRAMJET_FOR_THIS_CPU(sigmoid_backward_loop);
  check_sigmoid_backward(grad_output, output);
  return run_elementwise(loop_for(output.scalar_type()), {grad_output, output});
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, CPU, m) {
  m.impl("sigmoid", sigmoid_cpu);
  m.impl("sigmoid_backward", sigmoid_backward_cpu);
}

}  // namespace scramjet::ops
