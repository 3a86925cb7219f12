#pragma once

#include <ATen/cpu/vec/functional.h>
#include <ATen/cpu/vec/vec.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "ops/cpu_capability.h"

/// Loops for the sources of a cpu_kernel (ops/cpu_kernel.bzl): an elementwise operator is written
/// once, on vectors, and every element goes through that one body, tails and strided ones too.
/// So an element's value does not depend on where it stands in memory.
namespace scramjet::ops {

namespace CPU_CAPABILITY {

/// Up to one vector of elements that stand `stride` bytes apart.
template <typename T>
at::vec::Vectorized<T> load_strided(const char* data, int64_t stride, int64_t count) {
  using Vec = at::vec::Vectorized<T>;
  if (stride == sizeof(T)) return Vec::loadu(data, count);
  if (stride == 0) return Vec(*reinterpret_cast<const T*>(data));
  alignas(64) std::array<T, Vec::size()> lanes{};
  for (int64_t i = 0; i < count; ++i) {
    lanes[i] = *reinterpret_cast<const T*>(data + i * stride);
  }
  return Vec::loadu(lanes.data());
}

/// The first `count` elements of `value` to places `stride` bytes apart.
template <typename T>
void store_strided(const at::vec::Vectorized<T>& value, char* data, int64_t stride, int64_t count) {
  if (stride == sizeof(T)) {
    value.store(data, static_cast<int>(count));
    return;
  }
  alignas(64) std::array<T, at::vec::Vectorized<T>::size()> lanes;
  value.store(lanes.data());
  for (int64_t i = 0; i < count; ++i) *reinterpret_cast<T*>(data + i * stride) = lanes[i];
}

/// Runs `op(Vectorized<T>...) -> Vectorized<T>` over the rows; kInput counts the inputs from 0.
template <typename T, typename Op, size_t... kInput>
void elementwise_rows(char** data, const int64_t* strides, int64_t size0, int64_t size1,
                      const Op& op, std::index_sequence<kInput...>) {
  using Vec = at::vec::Vectorized<T>;
  constexpr size_t kOperands = sizeof...(kInput) + 1;
  constexpr int64_t kLanes = Vec::size();
  bool contiguous = strides[0] == sizeof(T);
  ((contiguous = contiguous && strides[kInput + 1] == sizeof(T)), ...);
  for (int64_t row = 0; row < size1; ++row) {
    std::array<char*, kOperands> start;
    for (size_t k = 0; k < kOperands; ++k) start[k] = data[k] + row * strides[kOperands + k];
    int64_t i = 0;
    if (contiguous) {
      // Two vectors in flight, as ATen has.
      for (; i <= size0 - 2 * kLanes; i += 2 * kLanes) {
        const int64_t first = i * sizeof(T);
        const int64_t second = first + kLanes * sizeof(T);
        const Vec result0 = op(Vec::loadu(start[kInput + 1] + first)...);
        const Vec result1 = op(Vec::loadu(start[kInput + 1] + second)...);
        result0.store(start[0] + first);
        result1.store(start[0] + second);
      }
    }
    for (; i < size0; i += kLanes) {
      const int64_t count = std::min(kLanes, size0 - i);
      store_strided<T>(op(load_strided<T>(start[kInput + 1] + i * strides[kInput + 1],
                                          strides[kInput + 1], count)...),
                       start[0] + i * strides[0], strides[0], count);
    }
  }
}

/// An ElementwiseLoop of a stateless `Op` on `kInputs` inputs of type T; half and bfloat16 are
/// widened, so that Op always sees vectors of float or double and rounding happens once.
template <typename T, int kInputs, typename Op>
void elementwise_loop(char** data, const int64_t* strides, int64_t size0, int64_t size1) {
  const auto op = [](const auto&... inputs) {
    if constexpr (at::vec::is_reduced_floating_point_v<T>) {
      const auto halves = [](const auto&... wide) {
        return std::pair(Op()(std::get<0>(wide)...), Op()(std::get<1>(wide)...));
      }(at::vec::convert_to_float<T>(inputs)...);
      return at::vec::convert_from_float<T>(halves.first, halves.second);
    } else {
      return Op()(inputs...);
    }
  };
  elementwise_rows<T>(data, strides, size0, size1, op, std::make_index_sequence<kInputs>());
}

}  // namespace CPU_CAPABILITY
}  // namespace scramjet::ops
