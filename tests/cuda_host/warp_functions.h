#pragma once

#include <cuda_runtime.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <type_traits>

#include "tests/cuda_host/grid_execution.h"

/// The barriers, shuffles and votes of CUDA (CUDA C++ Programming Guide, 10.6, 10.19 and 10.22).
/// Strict where the guide says undefined: all threads of a block, or all lanes of the mask, must
/// come to the same call.
namespace scramjet::cuda_host {

using Place = std::source_location;

template <typename T>
uint64_t bits_of(const T& value) {
  static_assert(sizeof(T) <= sizeof(uint64_t) && std::is_trivially_copyable_v<T>);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}

template <typename T>
T from_bits(uint64_t bits) {
  T value;
  std::memcpy(static_cast<void*>(&value), &bits, sizeof(T));  // __half is no plain type.
  return value;
}

/// The value of the lane `source(own lane within its part)` of each part of `width` lanes; the own
/// one where that lies outside.
template <typename T, typename Source>
T shuffle(unsigned mask, const T& value, int width, const char* function, const Place& place,
          const Source& source) {
  if (width < 1 || width > kLanes || !std::has_single_bit(static_cast<unsigned>(width))) {
    give_up(std::string(function) + " with a width that is no power of two up to 32");
  }
  const LaneValues& values = wait_for_lanes(mask, bits_of(value), function, place);
  const int part = lane() / width * width;
  const int from = source(lane() - part);
  if (from < 0 || from >= width) return value;
  if ((mask >> (part + from) & 1U) == 0) {
    give_up(std::string(function) + " reads a lane that its mask leaves out");
  }
  return from_bits<T>(values[part + from]);
}

inline unsigned ballot(unsigned mask, bool vote, const char* function, const Place& place) {
  const LaneValues& values = wait_for_lanes(mask, vote ? 1 : 0, function, place);
  unsigned votes = 0;
  for (int k = 0; k < kLanes; ++k) votes |= static_cast<unsigned>(values[k]) << k;
  return votes;
}

/// The values of the lanes in `mask`, one after the other into `combine`.
template <typename T, typename Combine>
T reduce(unsigned mask, T value, const char* function, const Place& place, const Combine& combine) {
  const LaneValues& values = wait_for_lanes(mask, bits_of(value), function, place);
  unsigned rest = mask;
  T result = from_bits<T>(values[std::countr_zero(rest)]);
  while ((rest &= rest - 1) != 0) {
    result = combine(result, from_bits<T>(values[std::countr_zero(rest)]));
  }
  return result;
}

}  // namespace scramjet::cuda_host

inline constexpr int warpSize = scramjet::cuda_host::kLanes;

inline void __syncthreads(
    const scramjet::cuda_host::Place& place = scramjet::cuda_host::Place::current()) {
  scramjet::cuda_host::wait_for_block(false, "__syncthreads", place);
}
inline int __syncthreads_count(int predicate, const scramjet::cuda_host::Place& place =
                                                  scramjet::cuda_host::Place::current()) {
  return scramjet::cuda_host::wait_for_block(predicate != 0, "__syncthreads_count", place);
}
inline int __syncthreads_or(int predicate, const scramjet::cuda_host::Place& place =
                                               scramjet::cuda_host::Place::current()) {
  return scramjet::cuda_host::wait_for_block(predicate != 0, "__syncthreads_or", place) > 0;
}
inline int __syncthreads_and(int predicate, const scramjet::cuda_host::Place& place =
                                                scramjet::cuda_host::Place::current()) {
  return scramjet::cuda_host::wait_for_block(predicate == 0, "__syncthreads_and", place) == 0;
}
inline void __syncwarp(unsigned mask = 0xffffffffU, const scramjet::cuda_host::Place& place =
                                                        scramjet::cuda_host::Place::current()) {
  scramjet::cuda_host::wait_for_lanes(mask, 0, "__syncwarp", place);
}

template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = warpSize,
              const scramjet::cuda_host::Place& place = scramjet::cuda_host::Place::current()) {
  return scramjet::cuda_host::shuffle(mask, value, width, "__shfl_sync", place,
                                      [&](int /*lane*/) { return source & (width - 1); });
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = warpSize,
                  const scramjet::cuda_host::Place& place = scramjet::cuda_host::Place::current()) {
  return scramjet::cuda_host::shuffle(mask, value, width, "__shfl_xor_sync", place,
                                      [&](int lane) { return lane ^ lane_mask; });
}
template <typename T>
T __shfl_down_sync(
    unsigned mask, T value, unsigned delta, int width = warpSize,
    const scramjet::cuda_host::Place& place = scramjet::cuda_host::Place::current()) {
  return scramjet::cuda_host::shuffle(mask, value, width, "__shfl_down_sync", place, [&](int lane) {
    return lane + static_cast<int>(delta & (warpSize - 1));
  });
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize,
                 const scramjet::cuda_host::Place& place = scramjet::cuda_host::Place::current()) {
  return scramjet::cuda_host::shuffle(mask, value, width, "__shfl_up_sync", place, [&](int lane) {
    return lane - static_cast<int>(delta & (warpSize - 1));
  });
}

inline unsigned __ballot_sync(
    unsigned mask, int predicate,
    const scramjet::cuda_host::Place& place = scramjet::cuda_host::Place::current()) {
  return scramjet::cuda_host::ballot(mask, predicate != 0, "__ballot_sync", place);
}
inline int __any_sync(
    unsigned mask, int predicate,
    const scramjet::cuda_host::Place& place = scramjet::cuda_host::Place::current()) {
  return scramjet::cuda_host::ballot(mask, predicate != 0, "__any_sync", place) != 0;
}
inline int __all_sync(
    unsigned mask, int predicate,
    const scramjet::cuda_host::Place& place = scramjet::cuda_host::Place::current()) {
  return scramjet::cuda_host::ballot(mask, predicate != 0, "__all_sync", place) == mask;
}

template <typename T>
T __reduce_add_sync(
    unsigned mask, T value,
    const scramjet::cuda_host::Place& place = scramjet::cuda_host::Place::current()) {
  return scramjet::cuda_host::reduce(mask, value, "__reduce_add_sync", place,
                                     [](T a, T b) { return a + b; });
}
template <typename T>
T __reduce_max_sync(
    unsigned mask, T value,
    const scramjet::cuda_host::Place& place = scramjet::cuda_host::Place::current()) {
  return scramjet::cuda_host::reduce(mask, value, "__reduce_max_sync", place,
                                     [](T a, T b) { return a < b ? b : a; });
}
template <typename T>
T __reduce_min_sync(
    unsigned mask, T value,
    const scramjet::cuda_host::Place& place = scramjet::cuda_host::Place::current()) {
  return scramjet::cuda_host::reduce(mask, value, "__reduce_min_sync", place,
                                     [](T a, T b) { return b < a ? b : a; });
}

inline void __threadfence() {}
inline void __threadfence_block() {}
