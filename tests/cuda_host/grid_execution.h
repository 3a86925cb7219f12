#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>
#include <stdexcept>
#include <string>

/// Runs the threads of a CUDA grid on the CPU: block after block, each thread of a block a fiber
/// that goes on until it waits at a barrier or for the lanes of its warp. Nothing runs at the same
/// time, so that a run can be repeated exactly; the order of the threads can be turned round, and a
/// kernel that misses a barrier gives wrong numbers in one of the two orders.
///
///     run_grid({.grid = 2, .block = 64}, [&] { out[blockIdx.x * 64 + threadIdx.x] = 1; });
///
/// Kernels see this through device_language.h.
namespace scramjet::cuda_host {

/// What a GPU would answer with an error, a hang, or nonsense: threads that wait for each other
/// for ever, a launch beyond the limits, a misaligned access. The grid is given up.
class ExecutionError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct LaunchShape {
  dim3 grid = 1;
  dim3 block = 1;
  size_t dynamic_shared_bytes = 0;
  size_t dynamic_shared_limit = kUsualDynamicShared;

  static constexpr size_t kUsualDynamicShared = 48 << 10;
};

enum class Order { kForward, kBackward };

/// Of the blocks and of the threads in a block, for the launches that follow.
void set_order(Order order);

/// Calls `thread` once for each thread of the grid and returns when all have. Throws
/// ExecutionError, or what `thread` throws.
void run_grid(const LaunchShape& shape, const std::function<void()>& thread);

constexpr int kLanes = 32;
using LaneValues = std::array<uint64_t, kLanes>;

/// For a thread of a grid. Waits for all threads of the block; returns how many came with `vote`.
int wait_for_block(bool vote, const char* function, const std::source_location& place);

/// For a thread of a grid. Waits for the lanes in `mask` to call the same function at the same
/// place with the same mask; returns what each brought.
const LaneValues& wait_for_lanes(unsigned mask, uint64_t value, const char* function,
                                 const std::source_location& place);

/// The calling thread's place in its warp.
int lane();

/// The block's memory for a shared variable, the same for all its threads and full of 0xff, NaN for
/// floats, at first.
void* shared_memory(int variable, size_t bytes);
void* dynamic_shared_memory();

/// A number for a shared variable.
int new_shared_variable();

/// Gives up the grid that runs: run_grid throws ExecutionError(message). Ends the program where
/// none runs.
[[noreturn]] void give_up(std::string message);

}  // namespace scramjet::cuda_host
