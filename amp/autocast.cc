#include "amp/autocast.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/empty.h>

#include <string>

namespace scramjet::amp {
namespace {

std::string supported_devices() {
  std::string names;
  for (const at::DeviceType device : at::autocast::_AUTOCAST_SUPPORTED_DEVICES) {
    if (!names.empty()) names += ", ";
    names += at::DeviceTypeName(device, /*lower_case=*/true);
  }
  return names;
}

// CUDA emulates bfloat16 where the chip lacks it, so the question is whether a tensor can be made.
// Asked once, of the device that is current then: a region begins often.
bool cuda_has_bfloat16() {
  static const bool supported = [] {
    try {
      at::empty({1}, at::device(at::kCUDA).dtype(at::kBFloat16)).fill_(1);
      return true;
    } catch (const c10::Error&) {
      return false;
    }
  }();
  return supported;
}

bool may_enable(at::DeviceType device, at::ScalarType dtype) {
  if (device == at::kCUDA) {
    if (!at::hasCUDA()) {
      TORCH_WARN("Autocast: there is no CUDA device; the region is disabled");
      return false;
    }
    TORCH_CHECK(dtype != at::kBFloat16 || cuda_has_bfloat16(),
                "Autocast: expected a dtype that the CUDA device supports, got bfloat16; use half");
    return true;
  }
  if (dtype == at::kBFloat16 || dtype == at::kHalf) return true;
  TORCH_WARN("Autocast: dtype must be bfloat16 or half on ",
             at::DeviceTypeName(device, /*lower_case=*/true), ", got ", c10::toString(dtype),
             "; the region is disabled");
  return false;
}

}  // namespace

Autocast::Autocast(at::DeviceType device, AutocastOptions options) : device_(device) {
  TORCH_CHECK(at::autocast::is_autocast_available(device), "Autocast: device must be one of ",
              supported_devices(), ", got ", at::DeviceTypeName(device, /*lower_case=*/true));
  previous_dtype_ = at::autocast::get_autocast_dtype(device);
  previous_enabled_ = at::autocast::is_autocast_enabled(device);
  previous_cache_enabled_ = at::autocast::is_autocast_cache_enabled();
  const at::ScalarType dtype = options.dtype.value_or(previous_dtype_);
  const bool enabled = options.enabled && may_enable(device, dtype);
  at::autocast::set_autocast_enabled(device, enabled);
  at::autocast::set_autocast_dtype(device, dtype);
  at::autocast::increment_nesting();
  at::autocast::set_autocast_cache_enabled(options.cache_enabled.value_or(previous_cache_enabled_));
}

Autocast::~Autocast() {
  // Here and no earlier: the outer regions of the same iteration reuse the casts.
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, previous_enabled_);
  at::autocast::set_autocast_dtype(device_, previous_dtype_);
  at::autocast::set_autocast_cache_enabled(previous_cache_enabled_);
}

}  // namespace scramjet::amp
