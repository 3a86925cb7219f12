#pragma once

#include <cstddef>
#include <functional>

namespace scramjet::cuda_host {

/// A flow of control with a stack of its own, which goes on where another stops:
///
///     Fiber main, other([&] { other.switch_to(main); });
///     main.switch_to(other);
///
/// A switch is a few instructions; that of <ucontext.h> makes a system call, and kernels switch
/// millions of times.
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
  char* memory_ = nullptr;
  void* stack_pointer_ = nullptr;
  // Where the stack lies, and what else AddressSanitizer keeps of a fiber that stopped.
  const void* stack_ = nullptr;
  size_t stack_bytes_ = 0;
  void* fake_stack_ = nullptr;
};

}  // namespace scramjet::cuda_host
