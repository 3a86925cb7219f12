#pragma once

// One of autocast's casts as an operator, for graphs that have autocast written into them:
//
//     scramjet::autocast_to(Tensor(a) self, int device_type, ScalarType dtype) -> Tensor(a)
//     scramjet::autocast_to.optional(Tensor(a)? self, int device_type, ScalarType dtype) ->
//     Tensor(a)?
//
// Differentiable, and the same call in eager code, in TorchScript and in a fused kernel.

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceType.h>

namespace scramjet::amp {

/// `self` in `dtype` where autocast of this device would cast it: where it is on the device,
/// floating-point, and not double. Otherwise, and where the dtype is right already, `self` itself.
at::Tensor autocast_to(const at::Tensor& self, c10::DeviceType device, at::ScalarType dtype);

/// Does a tensor of this dtype take part in casts? (The rule of at::autocast::cached_cast.)
bool is_cast(at::ScalarType dtype);

}  // namespace scramjet::amp
