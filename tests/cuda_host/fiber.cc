#include "tests/cuda_host/fiber.h"

#include <sys/mman.h>

#include <cerrno>
#include <system_error>
#include <utility>
#include <vector>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#ifndef __x86_64__
#error "Fiber switches stacks by x86-64 instructions"
#endif

// Saves what a function must keep (System V ABI, 3.2.1) on the stack that is left, and takes it
// from the other.
asm(R"(
.text
.type scramjet_switch_stack, @function
scramjet_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size scramjet_switch_stack, .-scramjet_switch_stack
)");
extern "C" void scramjet_switch_stack(void** left, void* entered);

namespace scramjet::cuda_host {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kStackBytes = 256 << 10;
constexpr int kSavedRegisters = 6;

Fiber* left = nullptr;
Fiber* entered = nullptr;

/// Stacks that wait for the next fiber.
std::vector<char*>& idle_stacks() {
  static std::vector<char*> stacks;
  return stacks;
}

char* new_stack() {
  if (!idle_stacks().empty()) {
    char* const memory = idle_stacks().back();
    idle_stacks().pop_back();
    return memory;
  }
  void* const memory = mmap(nullptr, kPage + kStackBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
  mprotect(memory, kPage, PROT_NONE);  // A stack that grows too large ends here.
  return static_cast<char*>(memory);
}

}  // namespace

Fiber::Fiber(std::function<void()> body)
    : body_(std::move(body)),
      memory_(new_stack()),
      stack_(memory_ + kPage),
      stack_bytes_(kStackBytes) {
  auto** const top = reinterpret_cast<void**>(memory_ + kPage + kStackBytes);
  top[-1] = nullptr;  // As if a caller had pushed where it goes on.
  top[-2] = reinterpret_cast<void*>(&Fiber::start);
  for (int k = 1; k <= kSavedRegisters; ++k) top[-2 - k] = nullptr;
  stack_pointer_ = top - 2 - kSavedRegisters;
}

Fiber::~Fiber() {
  if (memory_ == nullptr) return;
#ifdef __SANITIZE_ADDRESS__
  __asan_unpoison_memory_region(stack_, stack_bytes_);  // Frames that were given up.
#endif
  idle_stacks().push_back(memory_);
}

void Fiber::switch_to(Fiber& other) {
  left = this;
  entered = &other;
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(&fake_stack_, other.stack_, other.stack_bytes_);
#endif
  scramjet_switch_stack(&stack_pointer_, other.stack_pointer_);
  arrive();
}

void Fiber::start() {
  Fiber& own = *entered;
  own.arrive();
  own.body_();
}

void Fiber::arrive() {
#ifdef __SANITIZE_ADDRESS__
  // Tells where the stack of a caller lies, which it did not know itself.
  __sanitizer_finish_switch_fiber(fake_stack_, &left->stack_, &left->stack_bytes_);
#endif
}

}  // namespace scramjet::cuda_host
