#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/functorch/DynamicLayer.h>
#include <c10/core/GradMode.h>

/// What an operator's Autograd kernel asks of its arguments before it chooses how to differentiate.
///
///     at::Tensor foo_autograd(const at::Tensor& x) {
///       if (needs_aten_formula(x)) return aten_foo(x);
///       if (needs_gradient(x)) return FooFunction::apply(x);
///       at::AutoDispatchBelowADInplaceOrView guard;
///       return ops::foo(x);
///     }
namespace scramjet::ops {

inline bool has_tangent(const at::Tensor& x) { return x._fw_grad(/*level=*/0).defined(); }

/// A C++ autograd::Function knows neither forward-mode AD nor functorch's transforms
/// (torch.func.grad, jvp, jacrev): there, ATen's operators stand in, which know both.
template <typename... Tensors>
bool needs_aten_formula(const Tensors&... inputs) {
  return (has_tangent(inputs) || ...) || at::functorch::maybeCurrentDynamicLayer().has_value();
}

/// A Function's bookkeeping costs more than a small tensor's arithmetic: only where it is needed.
template <typename... Tensors>
bool needs_gradient(const Tensors&... inputs) {
  return at::GradMode::is_enabled() && (inputs.requires_grad() || ...);
}

}  // namespace scramjet::ops
