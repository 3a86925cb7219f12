#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include "ops/cuda_call.h"
#include "ops/softmax/softmax_arguments.h"
#include "ops/softmax/softmax_cuda_kernel.h"
#include "ops/softmax/softmax_kernels.h"
#include "ops/softmax/softmax_operands.h"

namespace scramjet::ops {
namespace {

SoftmaxLaunch launch_of(const SoftmaxArguments& call, int64_t rows) {
  return {cuda_dtype(call.x.scalar_type()), mask_kind(call), rows, current_cuda_stream()};
}

at::Tensor softmax_cuda(const SoftmaxArguments& call) {
  check_softmax(call);
  const c10::cuda::CUDAGuard guard(call.x.device());
  at::Tensor output = at::empty(call.x.sizes(), call.x.options());
  if (output.numel() == 0) return output;
  const SoftmaxOperands operands(call, output);
  launch_softmax(launch_of(call, operands.row_count()), operands.rows());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return output;
}

at::Tensor softmax_backward_cuda(const SoftmaxArguments& call, const at::Tensor& grad_output) {
  check_softmax_backward(call, grad_output);
  const c10::cuda::CUDAGuard guard(call.x.device());
  at::Tensor grad_input = at::empty(call.x.sizes(), call.x.options());
  if (grad_input.numel() == 0) return grad_input;
  const SoftmaxBackwardOperands operands(call, grad_output, grad_input);
  launch_softmax_backward(launch_of(call, operands.row_count()), operands.rows());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return grad_input;
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, CUDA, m) {
  SoftmaxKernels<softmax_cuda, softmax_backward_cuda>::add_to(m);
}

}  // namespace scramjet::ops
