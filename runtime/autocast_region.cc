#include "runtime/autocast_region.h"

#include <ATen/autocast_mode.h>
#include <c10/core/Device.h>

#include <vector>

namespace scramjet::runtime {
namespace {

struct Saved {
  c10::DeviceType device;
  bool enabled;
  at::ScalarType dtype;
};

thread_local std::vector<Saved> entered;

}  // namespace

void enter_autocast(const std::string& device, at::ScalarType dtype, bool enabled) {
  const c10::DeviceType type = c10::Device(device).type();
  entered.push_back(
      {type, at::autocast::is_autocast_enabled(type), at::autocast::get_autocast_dtype(type)});
  at::autocast::set_autocast_enabled(type, enabled);
  at::autocast::set_autocast_dtype(type, dtype);
  at::autocast::increment_nesting();
}

void exit_autocast() {
  TORCH_INTERNAL_ASSERT(!entered.empty(), "exit_autocast without enter_autocast");
  const Saved saved = entered.back();
  entered.pop_back();
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(saved.device, saved.enabled);
  at::autocast::set_autocast_dtype(saved.device, saved.dtype);
}

AutocastRegionGuard::AutocastRegionGuard() : depth_(entered.size()) {}

AutocastRegionGuard::~AutocastRegionGuard() {
  while (entered.size() > depth_) exit_autocast();
}

}  // namespace scramjet::runtime
