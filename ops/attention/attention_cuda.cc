#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include "ops/attention/attention_arguments.h"
#include "ops/attention/attention_cuda_kernel.h"
#include "ops/attention/attention_kernels.h"
#include "ops/attention/attention_operands.h"
#include "ops/cuda_call.h"

namespace scramjet::ops {
namespace {

AttentionOutputs attention_cuda(const AttentionArguments& call) {
  check_attention(call);
  const c10::cuda::CUDAGuard guard(call.query.device());
  const at::IntArrayRef sizes = call.query.sizes();
  AttentionOutputs outputs{
      at::empty({sizes[0], sizes[1], sizes[2], call.value.size(3)}, call.query.options()),
      at::empty(sizes.slice(0, 3), call.query.options().dtype(call.compute_dtype()))};
  if (outputs.logsumexp.numel() == 0) return outputs;
  const AttentionOperands operands(call, outputs);
  launch_attention(cuda_dtype(call.query.scalar_type()), operands.problem(), current_cuda_stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return outputs;
}

AttentionGradientOutputs attention_backward_cuda(const AttentionArguments& call,
                                                 const AttentionResults& results) {
  check_attention_backward(call, results);
  const c10::cuda::CUDAGuard guard(call.query.device());
  const auto empty = [](const at::Tensor& x) { return at::empty(x.sizes(), x.options()); };
  AttentionGradientOutputs gradients{empty(call.query), empty(call.key), empty(call.value)};
  const at::Tensor delta = at::empty(results.logsumexp.sizes(), results.logsumexp.options());
  if (delta.numel() == 0 || call.key.size(2) == 0) {
    gradients.query.zero_();
    gradients.key.zero_();
    gradients.value.zero_();
    return gradients;
  }
  const AttentionBackwardOperands operands(call, results, gradients, delta);
  launch_attention_backward(cuda_dtype(call.query.scalar_type()), operands.problem(),
                            operands.gradients(), current_cuda_stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return gradients;
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, CUDA, m) {
  AttentionKernels<attention_cuda, attention_backward_cuda>::add_to(m);
}

}  // namespace scramjet::ops
