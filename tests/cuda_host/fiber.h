#pragma once

#include <ucontext.h>

#include <cstddef>
#include <functional>

namespace scramjet::cuda_host {

/// A flow of control with a stack of its own, which goes on where another stops:
///
///     Fiber main, other([&] { other.switch_to(main); });
///     main.switch_to(other);
class Fiber {
 public:
  /// The caller's own, on the caller's stack.
  Fiber() = default;
  /// Calls `body`, which never returns, when it is first switched to.
  explicit Fiber(std::function<void()> body);
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber();

  /// Goes on with `other`; returns when another fiber switches to this one.
  void switch_to(Fiber& other);

 private:
  static void start();
  void arrive();

  std::function<void()> body_;
  ucontext_t context_ = {};
  void* memory_ = nullptr;
  // Where the stack lies, and what else AddressSanitizer keeps of a fiber that stopped.
  const void* stack_ = nullptr;
  size_t stack_bytes_ = 0;
  void* fake_stack_ = nullptr;
};

}  // namespace scramjet::cuda_host
