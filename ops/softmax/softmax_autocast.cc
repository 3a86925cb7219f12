#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include "ops/softmax/softmax_call.h"
#include "ops/softmax/softmax_kernels.h"

namespace scramjet::ops {
namespace {

/// torch's policy for softmax: on CUDA in float, elsewhere as it comes. A mask that is added fits
/// afterwards.
template <c10::DeviceType kDevice>
at::Tensor softmax_autocast(const SoftmaxArguments& call) {
  const c10::impl::ExcludeDispatchKeyGuard guard(
      at::autocast::get_autocast_dispatch_key_from_device_type(kDevice));
  at::ScalarType dtype = call.x.scalar_type();
  const bool is_reduced = dtype == at::kHalf || dtype == at::kBFloat16;
  if (kDevice == c10::DeviceType::CUDA && is_reduced) dtype = at::kFloat;
  const at::Tensor input = call.x.to(dtype);
  at::Tensor mask = call.mask;
  // Float serves half and bfloat16 too.
  if (call.has_added_mask() && mask.scalar_type() != dtype) {
    mask = mask.to(dtype == at::kDouble ? at::kDouble : at::kFloat);
  }
  return call_softmax({call.op, call.x_name, input, mask, call.scale, call.causal});
}

/// The backward's arguments are what the forward had already cast.
template <c10::DeviceType kDevice>
at::Tensor softmax_backward_autocast(const SoftmaxArguments& call, const at::Tensor& grad_output) {
  const c10::impl::ExcludeDispatchKeyGuard guard(
      at::autocast::get_autocast_dispatch_key_from_device_type(kDevice));
  return call_softmax_backward(call, grad_output);
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, AutocastCPU, m) {
  SoftmaxKernels<softmax_autocast<c10::DeviceType::CPU>,
                 softmax_backward_autocast<c10::DeviceType::CPU>>::add_to(m);
}

TORCH_LIBRARY_IMPL(scramjet, AutocastCUDA, m) {
  SoftmaxKernels<softmax_autocast<c10::DeviceType::CUDA>,
                 softmax_backward_autocast<c10::DeviceType::CUDA>>::add_to(m);
}

}  // namespace scramjet::ops
