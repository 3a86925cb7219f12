#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include "ops/norm/norm_call.h"
#include "ops/norm/norm_kernels.h"

namespace scramjet::ops {
namespace {

/// torch's policy for layer_norm and rms_norm: on CUDA in float, elsewhere as they come. A sum of
/// two dtypes takes the wider one.
template <c10::DeviceType kDevice>
NormOutputs norm_autocast(const NormArguments& call) {
  const c10::impl::ExcludeDispatchKeyGuard guard(
      at::autocast::get_autocast_dispatch_key_from_device_type(kDevice));
  at::ScalarType dtype = call.input.scalar_type();
  if (call.residual.defined()) dtype = c10::promoteTypes(dtype, call.residual.scalar_type());
  const bool is_reduced = dtype == at::kHalf || dtype == at::kBFloat16;
  if (kDevice == c10::DeviceType::CUDA && is_reduced) dtype = at::kFloat;

  const auto cast = [&](const at::Tensor& x) { return x.defined() ? x.to(dtype) : x; };
  // Float parameters serve half and bfloat16 as they are.
  const auto cast_parameter = [&](const at::Tensor& x) {
    return x.defined() && is_reduced && x.scalar_type() == at::kFloat ? x : cast(x);
  };
  const at::Tensor input = cast(call.input);
  const at::Tensor residual = cast(call.residual);
  const at::Tensor weight = cast_parameter(call.weight);
  const at::Tensor bias = cast_parameter(call.bias);
  return call_norm(
      {call.op, call.norm, input, residual, call.normalized_shape, weight, bias, call.eps});
}

/// The backward's arguments are what the forward had already cast.
template <c10::DeviceType kDevice>
NormGradients norm_backward_autocast(const NormArguments& call, const at::Tensor& grad_output,
                                     const at::Tensor& grad_sum) {
  const c10::impl::ExcludeDispatchKeyGuard guard(
      at::autocast::get_autocast_dispatch_key_from_device_type(kDevice));
  return call_norm_backward(call, grad_output, grad_sum);
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, AutocastCPU, m) {
  NormKernels<norm_autocast<c10::DeviceType::CPU>,
              norm_backward_autocast<c10::DeviceType::CPU>>::add_to(m);
}

TORCH_LIBRARY_IMPL(scramjet, AutocastCUDA, m) {
  NormKernels<norm_autocast<c10::DeviceType::CUDA>,
              norm_backward_autocast<c10::DeviceType::CUDA>>::add_to(m);
}

}  // namespace scramjet::ops
