#pragma once

// Whether a tensor's memory may be read directly, past the dispatcher.

#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace scramjet::runtime {

// Why only the dispatcher knows how to work with this tensor, or nullptr for a plain CPU tensor.
inline const char* why_not_plain(const at::Tensor& tensor) {
  constexpr c10::DispatchKeySet kPlainKeys =
      c10::DispatchKeySet({c10::DispatchKey::CPU, c10::DispatchKey::ADInplaceOrView}) |
      c10::autograd_dispatch_keyset | c10::autocast_dispatch_keyset;
  if (!tensor.defined()) return "an undefined tensor";
  if (!tensor.is_cpu()) return "a tensor that is not on the CPU";
  // The backend's bit stays in such a difference; what counts is a functionality beyond the plain
  // ones.
  if ((tensor.key_set() - kPlainKeys).highestFunctionalityKey() != c10::DispatchKey::Undefined) {
    return "a tensor with further dispatch keys (sparse, quantised, conjugate, a subclass)";
  }
  return nullptr;
}

// Keys that eager has on as well when nothing special goes on.
inline constexpr c10::DispatchKeySet kOrdinaryModes =
    c10::DispatchKeySet({c10::DispatchKey::BackendSelect, c10::DispatchKey::ADInplaceOrView}) |
    c10::autograd_dispatch_keyset | c10::autocast_dispatch_keyset;

// Why an op must go through the dispatcher whatever its tensors are, or nullptr.
inline const char* why_not_mode() {
  if (at::autocast::is_autocast_enabled(at::kCPU)) return "autocast is on";
  if (c10::get_default_dtype_as_scalartype() != at::kFloat) return "the default dtype is not float";
  const c10::DispatchKeySet modes =
      c10::impl::tls_local_dispatch_key_set().included_ - kOrdinaryModes;
  if (modes.highestFunctionalityKey() != c10::DispatchKey::Undefined)
    return "a dispatch mode is on (functorch, fake tensors, tracing)";
  return nullptr;
}

// Why autograd has to see what becomes of the tensor, or nullptr.
inline const char* why_not_autograd(const at::Tensor& tensor) {
  if (tensor.unsafeGetTensorImpl()->autograd_meta() == nullptr) return nullptr;
  if (c10::GradMode::is_enabled() && tensor.requires_grad()) return "an input requires a gradient";
  return tensor._fw_grad(/*level=*/0).defined() ? "an input carries a forward gradient" : nullptr;
}

}  // namespace scramjet::runtime
