#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include "ops/cuda_call.h"
#include "ops/loss/linear_loss.h"
#include "ops/loss/loss_by_rows.h"
#include "ops/loss/loss_cuda_kernel.h"
#include "ops/loss/loss_kernels.h"

namespace scramjet::ops {
namespace {

void run_on_cuda(at::ScalarType dtype, const LossRows& rows, int64_t count) {
  if (count == 0 || rows.columns == 0) return;
  launch_loss_rows(cuda_dtype(dtype), rows, count, current_cuda_stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

LossOutputs loss_cuda(const LossArguments& call) {
  const c10::cuda::CUDAGuard guard(call.logits.device());
  return loss_by_rows(call, run_on_cuda);
}

at::Tensor loss_backward_cuda(const LossArguments& call, const at::Tensor& grad_output,
                              const at::Tensor& logsumexp) {
  const c10::cuda::CUDAGuard guard(call.logits.device());
  return loss_backward_by_rows(call, grad_output, logsumexp, run_on_cuda);
}

LinearLossOutputs linear_loss_cuda(const LinearLossArguments& call, const WantedGradients& wanted) {
  const c10::cuda::CUDAGuard guard(call.input.device());
  return linear_loss_by_rows(call, wanted, run_on_cuda);
}

LinearLossGradients linear_loss_backward_cuda(const LinearLossArguments& call,
                                              const at::Tensor& grad_output,
                                              const at::Tensor& logsumexp,
                                              const WantedGradients& wanted) {
  const c10::cuda::CUDAGuard guard(call.input.device());
  return linear_loss_backward_by_rows(call, grad_output, logsumexp, wanted, run_on_cuda);
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, CUDA, m) {
  LossKernels<loss_cuda, loss_backward_cuda, linear_loss_cuda, linear_loss_backward_cuda>::add_to(
      m);
}

}  // namespace scramjet::ops
