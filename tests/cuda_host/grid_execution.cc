#include "tests/cuda_host/grid_execution.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/cuda_host/fiber.h"

// As nvcc has them, but variables: each thread finds its own values there when it goes on.
uint3 threadIdx;
uint3 blockIdx;
dim3 blockDim;
dim3 gridDim;

namespace scramjet::cuda_host {
namespace {

enum class State { kNotStarted, kReady, kWaiting, kReturned };

struct Thread {
  uint3 index = {};
  State state = State::kNotStarted;
  Fiber* fiber = nullptr;
  // What it waits for: no mask at a barrier of the block.
  const char* function = nullptr;
  std::source_location place;
  unsigned mask = 0;
  // What it brings, and what it is given.
  uint64_t value = 0;
  int votes = 0;
  LaneValues lanes = {};
};

bool same_place(const std::source_location& a, const std::source_location& b) {
  return a.line() == b.line() && a.column() == b.column() &&
         (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
}

bool wait_together(const Thread& a, const Thread& b) {
  return b.state == State::kWaiting && a.mask == b.mask && a.function == b.function &&
         same_place(a.place, b.place);
}

/// Shared memory of exactly the size asked for, so that AddressSanitizer sees what lies outside.
class SharedMemory {
 public:
  explicit SharedMemory(size_t bytes) : data_(::operator new(bytes, kAlignment)) {
    std::fill_n(static_cast<unsigned char*>(data_), bytes, 0xff);
  }
  SharedMemory(SharedMemory&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  SharedMemory& operator=(SharedMemory&&) = delete;
  ~SharedMemory() { ::operator delete(data_, kAlignment); }

  void* data() const { return data_; }

 private:
  static constexpr std::align_val_t kAlignment{128};
  void* data_;
};

std::string text(const uint3& index) {
  std::ostringstream out;
  out << '(' << index.x << ", " << index.y << ", " << index.z << ')';
  return out.str();
}

class Grid {
 public:
  Grid(const LaunchShape& shape, const std::function<void()>& body, Order order)
      : shape_(shape),
        body_(body),
        order_(order),
        threads_(size_t{shape.block.x} * shape.block.y * shape.block.z) {}

  void run() {
    gridDim = shape_.grid;
    blockDim = shape_.block;
    const uint64_t blocks = uint64_t{gridDim.x} * gridDim.y * gridDim.z;
    for (uint64_t k = 0; k < blocks; ++k) {
      const uint64_t block = order_ == Order::kForward ? k : blocks - 1 - k;
      blockIdx = {static_cast<unsigned>(block % gridDim.x),
                  static_cast<unsigned>(block / gridDim.x % gridDim.y),
                  static_cast<unsigned>(block / gridDim.x / gridDim.y)};
      run_block();
    }
  }

  int wait_for_block(bool vote, const char* function, const std::source_location& place) {
    Thread& own = stop_at(function, place, 0, vote ? 1 : 0);
    ++at_barrier_;
    const auto is_together = [&](const Thread& other) { return wait_together(own, other); };
    if (at_barrier_ == threads_.size() &&
        std::all_of(threads_.begin(), threads_.end(), is_together)) {
      at_barrier_ = 0;
      int votes = 0;
      for (const Thread& thread : threads_) votes += static_cast<int>(thread.value);
      for (Thread& thread : threads_) {
        thread.votes = votes;
        thread.state = State::kReady;
      }
    }
    go_on_when_ready(own);
    return own.votes;
  }

  const LaneValues& wait_for_lanes(unsigned mask, uint64_t value, const char* function,
                                   const std::source_location& place) {
    Thread& own = stop_at(function, place, mask, value);
    if ((mask >> lane() & 1U) == 0) give_up("a mask leaves out the thread that gives it" + who());
    Thread* const warp = threads_.data() + (current_ - lane());
    const size_t size = threads_.data() + threads_.size() - warp;
    LaneValues values = {};
    bool complete = true;
    for (size_t k = 0; k < kLanes; ++k) {
      if ((mask >> k & 1U) == 0) continue;
      complete = complete && k < size && wait_together(own, warp[k]);
      if (complete) values[k] = warp[k].value;
    }
    for (size_t k = 0; complete && k < kLanes; ++k) {
      if ((mask >> k & 1U) == 0) continue;
      warp[k].lanes = values;
      warp[k].state = State::kReady;
    }
    go_on_when_ready(own);
    return own.lanes;
  }

  int lane() const { return static_cast<int>(current_ % kLanes); }

  void* shared_memory(int variable, size_t bytes) {
    return shared_.try_emplace(variable, bytes).first->second.data();
  }

  void* dynamic_shared_memory() {
    constexpr int kDynamic = -1;
    return shared_memory(kDynamic, shape_.dynamic_shared_bytes);
  }

  [[noreturn]] void give_up(std::string message) {
    failure_ = std::make_exception_ptr(ExecutionError("cuda_host: " + message));
    std::string().swap(message);  // Nothing else frees what a fiber holds that is never resumed.
    leave();
  }

  std::string who() const {
    return ": block " + text(blockIdx) + ", thread " + text(threads_[current_].index);
  }

 private:
  void run_block() {
    for (size_t k = 0; k < threads_.size(); ++k) {
      threads_[k] = {};
      threads_[k].index = {static_cast<unsigned>(k % blockDim.x),
                           static_cast<unsigned>(k / blockDim.x % blockDim.y),
                           static_cast<unsigned>(k / blockDim.x / blockDim.y)};
    }
    shared_.clear();
    at_barrier_ = 0;
    current_ = order_ == Order::kForward ? threads_.size() - 1 : 0;  // The one before the first.
    start_or_resume(launcher_, *next());
    if (failure_) std::rethrow_exception(failure_);
  }

  /// The next thread in order that can run; null where none can.
  Thread* next() {
    const size_t count = threads_.size();
    for (size_t k = 1; k <= count; ++k) {
      const size_t i = (current_ + (order_ == Order::kForward ? k : count - k)) % count;
      const State state = threads_[i].state;
      if (state == State::kNotStarted || state == State::kReady) return &threads_[i];
    }
    return nullptr;
  }

  void enter(Thread& thread) {
    current_ = &thread - threads_.data();
    threadIdx = thread.index;
  }

  Thread& stop_at(const char* function, const std::source_location& place, unsigned mask,
                  uint64_t value) {
    Thread& own = threads_[current_];
    own.state = State::kWaiting;
    own.function = function;
    own.place = place;
    own.mask = mask;
    own.value = value;
    return own;
  }

  void go_on_when_ready(Thread& own) {
    if (own.state != State::kReady) {
      Thread* const thread = next();
      if (thread == nullptr) give_up(waiting_threads());
      start_or_resume(*own.fiber, *thread);
      enter(own);
    }
  }

  /// Leaves `from` for `thread`.
  void start_or_resume(Fiber& from, Thread& thread) {
    if (thread.state == State::kNotStarted) {
      if (idle_.empty()) {
        fibers_.push_back(std::make_unique<Fiber>([this] { run_threads(); }));
        idle_.push_back(fibers_.back().get());
      }
      thread.fiber = idle_.back();
      idle_.pop_back();
      starting_ = &thread;
    }
    from.switch_to(*thread.fiber);
  }

  /// What a fiber does: thread after thread.
  void run_threads() {
    for (;;) {
      Thread& own = *starting_;
      Fiber* const fiber = own.fiber;
      own.state = State::kReady;
      enter(own);
      try {
        body_();
      } catch (...) {
        failure_ = std::current_exception();
      }
      if (failure_) leave();
      own.state = State::kReturned;
      Thread* const thread = next();
      if (thread != nullptr && thread->state == State::kNotStarted) {
        thread->fiber = fiber;  // Most kernels never wait: one fiber is enough for them.
        starting_ = thread;
        continue;
      }
      if (thread == nullptr && any_waits()) give_up(waiting_threads());
      idle_.push_back(fiber);
      fiber->switch_to(thread == nullptr ? launcher_ : *thread->fiber);
    }
  }

  [[noreturn]] void leave() {
    threads_[current_].fiber->switch_to(launcher_);
    std::abort();  // A fiber that has left is never resumed.
  }

  bool any_waits() const {
    return std::any_of(threads_.begin(), threads_.end(),
                       [](const Thread& thread) { return thread.state == State::kWaiting; });
  }

  std::string waiting_threads() const {
    using Group = std::tuple<std::string, int, uint3>;
    std::vector<Group> groups;
    for (const Thread& thread : threads_) {
      std::ostringstream what;
      if (thread.state == State::kReturned) {
        what << "returned";
      } else {
        what << "wait in " << thread.function;
        if (thread.mask != 0) what << " with mask 0x" << std::hex << thread.mask << std::dec;
        what << " at " << thread.place.file_name() << ':' << thread.place.line();
      }
      if (groups.empty() || std::get<0>(groups.back()) != what.str()) {
        groups.emplace_back(what.str(), 0, thread.index);
      }
      ++std::get<1>(groups.back());
    }
    constexpr size_t kShown = 8;
    std::ostringstream message;
    message << "the threads of block " << text(blockIdx) << " wait for each other for ever:";
    for (size_t k = 0; k < std::min(kShown, groups.size()); ++k) {
      const auto& [what, count, first] = groups[k];
      message << "\n  " << count << " from thread " << text(first) << " on " << what;
    }
    if (groups.size() > kShown) message << "\n  ...";
    return message.str();
  }

  LaunchShape shape_;
  const std::function<void()>& body_;
  Order order_;
  std::vector<Thread> threads_;
  size_t current_ = 0;
  size_t at_barrier_ = 0;
  std::map<int, SharedMemory> shared_;
  Fiber launcher_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
  Thread* starting_ = nullptr;
  std::exception_ptr failure_;
};

Order order = Order::kForward;
Grid* running = nullptr;

void check(const LaunchShape& shape) {
  const auto [grid, block, bytes, limit] = shape;
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  std::ostringstream message;
  if (threads == 0 || threads > 1024 || block.z > 64) {
    message << "a block of " << text({block.x, block.y, block.z})
            << " threads; expected 1 to 1024, and at most 64 in z";
  } else if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7fffffffU || grid.y > 65535 ||
             grid.z > 65535) {
    message << "a grid of " << text({grid.x, grid.y, grid.z})
            << " blocks; expected 1 to 2^31 - 1 in x, 1 to 65535 in y and z";
  } else if (bytes > limit) {
    message << bytes << " bytes of dynamic shared memory; expected at most " << limit;
  } else {
    return;
  }
  throw ExecutionError("cuda_host: a launch with " + message.str());
}

}  // namespace

void set_order(Order new_order) { order = new_order; }

void run_grid(const LaunchShape& shape, const std::function<void()>& thread) {
  static std::mutex one_grid;
  check(shape);
  const std::lock_guard<std::mutex> lock(one_grid);
  Grid grid(shape, thread, order);
  running = &grid;
  try {
    grid.run();
  } catch (...) {
    running = nullptr;
    throw;
  }
  running = nullptr;
}

int wait_for_block(bool vote, const char* function, const std::source_location& place) {
  return running->wait_for_block(vote, function, place);
}

const LaneValues& wait_for_lanes(unsigned mask, uint64_t value, const char* function,
                                 const std::source_location& place) {
  return running->wait_for_lanes(mask, value, function, place);
}

int lane() { return running->lane(); }

void* shared_memory(int variable, size_t bytes) { return running->shared_memory(variable, bytes); }

void* dynamic_shared_memory() { return running->dynamic_shared_memory(); }

int new_shared_variable() {
  static int count = 0;
  return count++;
}

void give_up(std::string message) {
  if (running != nullptr) {
    message += running->who();
    running->give_up(std::move(message));
  }
  std::fprintf(stderr, "cuda_host: %s\n", message.c_str());
  std::abort();
}

}  // namespace scramjet::cuda_host
