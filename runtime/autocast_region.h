#pragma once

// The autocast regions of a scripted graph, as scramjet::enter_autocast and
// scramjet::exit_autocast.

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <string>

namespace scramjet::runtime {

// Switches this thread's autocast state, as torch.autocast.__enter__ and __exit__ do.
void enter_autocast(const std::string& device, at::ScalarType dtype, bool enabled);
void exit_autocast();

// Leaves, when destroyed, every region entered on this thread since: an exception must not leave
// autocast on.
class AutocastRegionGuard {
 public:
  AutocastRegionGuard();
  ~AutocastRegionGuard();
  AutocastRegionGuard(const AutocastRegionGuard&) = delete;
  AutocastRegionGuard& operator=(const AutocastRegionGuard&) = delete;

 private:
  size_t depth_;
};

}  // namespace scramjet::runtime
