#include <torch/library.h>

#include "ops/elementwise_cuda.h"
#include "ops/sigmoid/sigmoid_arguments.h"
#include "ops/sigmoid/sigmoid_cuda_kernel.h"

namespace scramjet::ops {
namespace {

at::Tensor sigmoid_cuda(const at::Tensor& x) {
  // An integer tensor is converted first: the kernels read and write one dtype.
  const at::Tensor input = x.to(sigmoid_result_dtype(x));
  return run_elementwise(launch_sigmoid, input);
}

at::Tensor sigmoid_backward_cuda(const at::Tensor& grad_output, const at::Tensor& output) {
  check_sigmoid_backward(grad_output, output);
  return run_elementwise(launch_sigmoid_backward, {grad_output, output});
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, CUDA, m) {
  m.impl("sigmoid", sigmoid_cuda);
  m.impl("sigmoid_backward", sigmoid_backward_cuda);
}

}  // namespace scramjet::ops
