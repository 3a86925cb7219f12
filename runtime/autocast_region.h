#pragma once

// The autocast regions of a scripted graph, as scramjet::enter_autocast and
// scramjet::exit_autocast.

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <vector>

namespace scramjet::runtime {

// Switches this thread's autocast state as torch.autocast.__enter__ does, and returns what __exit__
// needs. The graph holds that, not the thread: after aten::wait a graph may go on in another one.
std::vector<int64_t> enter_autocast(const std::string& device, at::ScalarType dtype, bool enabled);
void exit_autocast(const std::vector<int64_t>& saved);

// Restores, when destroyed, the autocast state that it found: an exception must not leave autocast
// on.
class AutocastGuard {
 public:
  AutocastGuard();
  ~AutocastGuard();
  AutocastGuard(const AutocastGuard&) = delete;
  AutocastGuard& operator=(const AutocastGuard&) = delete;

 private:
  bool cpu_, cuda_;
  at::ScalarType cpu_dtype_, cuda_dtype_;
  int nesting_;
};

}  // namespace scramjet::runtime
