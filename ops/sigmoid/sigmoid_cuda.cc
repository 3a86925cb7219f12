#include <ATen/TensorIterator.h>
#include <torch/library.h>

#include "ops/elementwise_cuda.h"
#include "ops/sigmoid/sigmoid_arguments.h"
#include "ops/sigmoid/sigmoid_cuda_kernel.h"

namespace scramjet::ops {
namespace {

at::Tensor sigmoid_cuda(const at::Tensor& x) {
  // An integer tensor is converted first: the kernels read and write one dtype.
  const at::Tensor input = x.to(sigmoid_result_dtype(x));
  at::Tensor result;
  auto iter = at::TensorIterator::unary_op(result, input);
  run_elementwise(iter, launch_sigmoid);
  return iter.output();
}

at::Tensor sigmoid_backward_cuda(const at::Tensor& grad_output, const at::Tensor& output) {
  check_sigmoid_backward(grad_output, output);
  at::Tensor result;
  auto iter = at::TensorIterator::binary_op(result, grad_output, output);
  run_elementwise(iter, launch_sigmoid_backward);
  return iter.output();
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, CUDA, m) {
  m.impl("sigmoid", sigmoid_cuda);
  m.impl("sigmoid_backward", sigmoid_backward_cuda);
}

}  // namespace scramjet::ops
