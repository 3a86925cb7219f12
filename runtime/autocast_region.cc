#include "runtime/autocast_region.h"

#include <ATen/autocast_mode.h>
#include <c10/core/Device.h>

namespace scramjet::runtime {
namespace {

int nesting() {
  const int inside = at::autocast::increment_nesting();
  at::autocast::decrement_nesting();
  return inside - 1;
}

void restore(c10::DeviceType device, bool enabled, at::ScalarType dtype) {
  if (at::autocast::is_autocast_enabled(device) != enabled)
    at::autocast::set_autocast_enabled(device, enabled);
  if (at::autocast::get_autocast_dtype(device) != dtype)
    at::autocast::set_autocast_dtype(device, dtype);
}

void leave_one() {
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
}

}  // namespace

std::vector<int64_t> enter_autocast(const std::string& device, at::ScalarType dtype, bool enabled) {
  const c10::DeviceType type = c10::Device(device).type();
  std::vector<int64_t> saved = {static_cast<int64_t>(type), at::autocast::is_autocast_enabled(type),
                                static_cast<int64_t>(at::autocast::get_autocast_dtype(type))};
  restore(type, enabled, dtype);
  at::autocast::increment_nesting();
  return saved;
}

void exit_autocast(const std::vector<int64_t>& saved) {
  TORCH_CHECK_VALUE(saved.size() == 3,
                    "scramjet::exit_autocast: argument 'saved' must be what enter_autocast gave");
  leave_one();
  restore(static_cast<c10::DeviceType>(saved[0]), saved[1] != 0,
          static_cast<at::ScalarType>(saved[2]));
}

AutocastGuard::AutocastGuard()
    : cpu_(at::autocast::is_autocast_enabled(at::kCPU)),
      cuda_(at::autocast::is_autocast_enabled(at::kCUDA)),
      cpu_dtype_(at::autocast::get_autocast_dtype(at::kCPU)),
      cuda_dtype_(at::autocast::get_autocast_dtype(at::kCUDA)),
      nesting_(nesting()) {}

AutocastGuard::~AutocastGuard() {
  for (int inside = nesting(); inside > nesting_; --inside) leave_one();
  restore(at::kCPU, cpu_, cpu_dtype_);
  restore(at::kCUDA, cuda_, cuda_dtype_);
}

}  // namespace scramjet::runtime
