#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include "ops/loss/loss_call.h"
#include "ops/loss/loss_kernels.h"

namespace scramjet::ops {
namespace {

using c10::DeviceType;

c10::impl::ExcludeDispatchKeyGuard below_autocast(DeviceType device) {
  return c10::impl::ExcludeDispatchKeyGuard(
      at::autocast::get_autocast_dispatch_key_from_device_type(device));
}

/// torch's policy has the loss in float. The kernels take it so from logits of any dtype, where
/// eager casts all logits.
LossOptions with_float_loss(LossOptions options, at::ScalarType dtype) {
  if (!options.dtype && dtype != at::kDouble) options.dtype = at::kFloat;
  return options;
}

template <DeviceType kDevice>
LossOutputs loss_autocast(const LossArguments& call) {
  const auto guard = below_autocast(kDevice);
  return {call_loss({call.op, call.logits, call.target,
                     with_float_loss(call.options, call.logits.scalar_type())}),
          {}};
}

/// The policy of linear, then that of the loss.
template <DeviceType kDevice>
LinearLossOutputs linear_loss_autocast(const LinearLossArguments& call,
                                       const WantedGradients& /*wanted*/) {
  const auto guard = below_autocast(kDevice);
  const at::ScalarType dtype = at::autocast::get_autocast_dtype(kDevice);
  const auto cast = [&](const at::Tensor& x) {
    return x.defined() ? at::autocast::cached_cast(dtype, x, kDevice) : x;
  };
  const at::Tensor input = cast(call.input);
  const at::Tensor weight = cast(call.weight);
  const at::Tensor bias = cast(call.bias);
  return {{call_linear_loss({call.op, input, weight, call.target, bias,
                             with_float_loss(call.options, input.scalar_type())}),
           {}},
          {}};
}

/// The backwards' arguments are what the forwards had already cast.
template <DeviceType kDevice>
at::Tensor loss_backward_autocast(const LossArguments& call, const at::Tensor& grad_output,
                                  const at::Tensor& logsumexp) {
  const auto guard = below_autocast(kDevice);
  return call_loss_backward(call, grad_output, logsumexp);
}

template <DeviceType kDevice>
LinearLossGradients linear_loss_backward_autocast(const LinearLossArguments& call,
                                                  const at::Tensor& grad_output,
                                                  const at::Tensor& logsumexp,
                                                  const WantedGradients& wanted) {
  const auto guard = below_autocast(kDevice);
  return call_linear_loss_backward(call, grad_output, logsumexp, wanted);
}

template <DeviceType kDevice>
void add_to(torch::Library& m) {
  LossKernels<loss_autocast<kDevice>, loss_backward_autocast<kDevice>,
              linear_loss_autocast<kDevice>,
              linear_loss_backward_autocast<kDevice>>::add_differentiable_to(m);
  // Autograd's kernels call these, below this key.
  m.impl("cross_entropy_forward", torch::CppFunction::makeFallthrough());
  m.impl("linear_cross_entropy_forward", torch::CppFunction::makeFallthrough());
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, AutocastCPU, m) { add_to<DeviceType::CPU>(m); }

TORCH_LIBRARY_IMPL(scramjet, AutocastCUDA, m) { add_to<DeviceType::CUDA>(m); }

}  // namespace scramjet::ops
