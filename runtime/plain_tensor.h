#pragma once

// Whether a tensor's memory may be read directly.

#include <ATen/core/Tensor.h>

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

}  // namespace scramjet::runtime
