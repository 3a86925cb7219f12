#include "amp/autocast_to.h"

#include <ATen/autocast_mode.h>
#include <torch/library.h>

namespace scramjet::amp {

bool is_cast(at::ScalarType dtype) { return at::isFloatingType(dtype) && dtype != at::kDouble; }

at::Tensor autocast_to(const at::Tensor& self, c10::DeviceType device, at::ScalarType dtype) {
  const bool takes_part = self.defined() && self.scalar_type() != dtype &&
                          is_cast(self.scalar_type()) &&
                          at::autocast::is_autocast_eligible(self, device);
  return takes_part ? self.to(dtype) : self;
}

namespace {

void check(int64_t device_type, at::ScalarType dtype) {
  TORCH_CHECK_VALUE(
      device_type == static_cast<int64_t>(at::kCPU) ||
          device_type == static_cast<int64_t>(at::kCUDA),
      "scramjet::autocast_to: argument 'device_type' must be 0 (CPU) or 1 (CUDA), got ",
      device_type);
  TORCH_CHECK_VALUE(
      is_cast(dtype),
      "scramjet::autocast_to: argument 'dtype' must be floating-point and not double, got ", dtype);
}

at::Tensor of_tensor(const at::Tensor& self, int64_t device_type, at::ScalarType dtype) {
  check(device_type, dtype);
  return autocast_to(self, static_cast<c10::DeviceType>(device_type), dtype);
}

std::optional<at::Tensor> of_optional(const std::optional<at::Tensor>& self, int64_t device_type,
                                      at::ScalarType dtype) {
  check(device_type, dtype);
  if (!self) return std::nullopt;
  return autocast_to(*self, static_cast<c10::DeviceType>(device_type), dtype);
}

// Written in terms of aten::to: every dispatch key, autograd and vmap among them, does what it does
// there.
TORCH_LIBRARY_FRAGMENT(scramjet, m) {
  constexpr auto kKey = c10::DispatchKey::CompositeImplicitAutograd;
  m.def("autocast_to(Tensor(a) self, int device_type, ScalarType dtype) -> Tensor(a)",
        torch::dispatch(kKey, TORCH_FN(of_tensor)), {at::Tag::pt2_compliant_tag});
  m.def("autocast_to.optional(Tensor(a)? self, int device_type, ScalarType dtype) -> Tensor(a)?",
        torch::dispatch(kKey, TORCH_FN(of_optional)), {at::Tag::pt2_compliant_tag});
}

}  // namespace
}  // namespace scramjet::amp
