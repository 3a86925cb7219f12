#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/SymIntArrayRef.h>
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

at::Tensor empty_output(const AttentionArguments& call, at::IntArrayRef sizes) {
  const c10::SymDimVector strides = attention_strides(call, c10::fromIntArrayRefSlow(sizes));
  return at::empty_strided(sizes, C10_AS_INTARRAYREF_SLOW(strides), call.query.options());
}

AttentionOutputs attention_cuda(const AttentionArguments& call) {
  check_attention(call);
  const c10::cuda::CUDAGuard guard(call.query.device());
  const at::IntArrayRef sizes = call.query.sizes();
  AttentionOutputs outputs{
      empty_output(call, {sizes[0], sizes[1], sizes[2], call.value.size(3)}),
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
  const auto empty = [&](const at::Tensor& x) { return empty_output(call, x.sizes()); };
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
