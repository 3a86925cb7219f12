#include "tests/cuda_host/fiber.h"

#include <sys/mman.h>

#include <cerrno>
#include <system_error>
#include <utility>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace scramjet::cuda_host {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kStackBytes = 256 << 10;

Fiber* left = nullptr;
Fiber* entered = nullptr;

}  // namespace

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)), stack_bytes_(kStackBytes) {
  memory_ = mmap(nullptr, kPage + kStackBytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory_ == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
  mprotect(memory_, kPage, PROT_NONE);  // A stack that grows too large ends here.
  stack_ = static_cast<char*>(memory_) + kPage;
  getcontext(&context_);
  context_.uc_stack.ss_sp = const_cast<void*>(stack_);
  context_.uc_stack.ss_size = kStackBytes;
  makecontext(&context_, &Fiber::start, 0);
}

Fiber::~Fiber() {
  if (memory_ == nullptr) return;
#ifdef __SANITIZE_ADDRESS__
  __asan_unpoison_memory_region(stack_, stack_bytes_);  // Frames that were given up.
#endif
  munmap(memory_, kPage + kStackBytes);
}

void Fiber::switch_to(Fiber& other) {
  left = this;
  entered = &other;
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(&fake_stack_, other.stack_, other.stack_bytes_);
#endif
  swapcontext(&context_, &other.context_);
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
