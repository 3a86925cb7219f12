#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include "ops/attention/attention_call.h"
#include "ops/attention/attention_kernels.h"

namespace scramjet::ops {
namespace {

/// torch's policy for scaled_dot_product_attention: the lower precision, on CPU and CUDA.
template <c10::DeviceType kDevice>
AttentionOutputs attention_autocast(const AttentionArguments& call) {
  const c10::impl::ExcludeDispatchKeyGuard guard(
      at::autocast::get_autocast_dispatch_key_from_device_type(kDevice));
  const at::ScalarType dtype = at::autocast::get_autocast_dtype(kDevice);
  const auto cast = [&](const at::Tensor& x) {
    return at::autocast::cached_cast(dtype, x, kDevice);
  };
  const at::Tensor query = cast(call.query);
  const at::Tensor key = cast(call.key);
  const at::Tensor value = cast(call.value);
  // A float mask serves half and bfloat16 as it is.
  const bool is_kept = !call.mask.defined() || call.mask.scalar_type() == at::kFloat;
  const at::Tensor mask = is_kept ? call.mask : cast(call.mask);
  return call_attention(
      {call.op, query, key, value, mask, call.options, call.query_starts, call.key_starts});
}

/// The backward's arguments are what the forward had already cast.
template <c10::DeviceType kDevice>
AttentionGradientOutputs attention_backward_autocast(const AttentionArguments& call,
                                                     const AttentionResults& results) {
  const c10::impl::ExcludeDispatchKeyGuard guard(
      at::autocast::get_autocast_dispatch_key_from_device_type(kDevice));
  return call_attention_backward(call, results);
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, AutocastCPU, m) {
  AttentionKernels<attention_autocast<c10::DeviceType::CPU>,
                   attention_backward_autocast<c10::DeviceType::CPU>>::add_to(m);
}

TORCH_LIBRARY_IMPL(scramjet, AutocastCUDA, m) {
  AttentionKernels<attention_autocast<c10::DeviceType::CUDA>,
                   attention_backward_autocast<c10::DeviceType::CUDA>>::add_to(m);
}

}  // namespace scramjet::ops
