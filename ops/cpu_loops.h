#pragma once

#include <ATen/cpu/vec/functional.h>
#include <ATen/cpu/vec/vec.h>
#include <c10/core/ScalarType.h>
#include <c10/macros/Macros.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <tuple>
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

/// What `op(Vectorized<T>...)` returns, as an array: one vector an output.
template <typename T, size_t kOutputs>
using Results = std::array<at::vec::Vectorized<T>, kOutputs>;

/// Runs `op(Vectorized<T>...) -> Results<T, kOutputs>` over the rows; kInput counts the inputs
/// from 0.
template <typename T, size_t kOutputs, typename Op, size_t... kInput>
void elementwise_rows(char** data, const int64_t* strides, int64_t size0, int64_t size1,
                      const Op& op, std::index_sequence<kInput...>) {
  using Vec = at::vec::Vectorized<T>;
  constexpr size_t kOperands = kOutputs + sizeof...(kInput);
  constexpr int64_t kLanes = Vec::size();
  bool contiguous = true;
  for (size_t k = 0; k < kOperands; ++k) contiguous = contiguous && strides[k] == sizeof(T);
  for (int64_t row = 0; row < size1; ++row) {
    std::array<char*, kOperands> start;
    for (size_t k = 0; k < kOperands; ++k) start[k] = data[k] + row * strides[kOperands + k];
    int64_t i = 0;
    // Two vectors of float or double in flight, as ATen has; one of half is two of float.
    if (contiguous && !at::vec::is_reduced_floating_point_v<T>) {
      for (; i <= size0 - 2 * kLanes; i += 2 * kLanes) {
        const int64_t first = i * sizeof(T);
        const int64_t second = first + kLanes * sizeof(T);
        const auto results0 = op(Vec::loadu(start[kOutputs + kInput] + first)...);
        const auto results1 = op(Vec::loadu(start[kOutputs + kInput] + second)...);
        for (size_t k = 0; k < kOutputs; ++k) {
          results0[k].store(start[k] + first);
          results1[k].store(start[k] + second);
        }
      }
    }
    for (; i < size0; i += kLanes) {
      const int64_t count = std::min(kLanes, size0 - i);
      const auto results =
          op(load_strided<T>(start[kOutputs + kInput] + i * strides[kOutputs + kInput],
                             strides[kOutputs + kInput], count)...);
      for (size_t k = 0; k < kOutputs; ++k) {
        store_strided<T>(results[k], start[k] + i * strides[k], strides[k], count);
      }
    }
  }
}

/// Op's result as an array, also where Op returns a single vector.
template <typename Vec>
std::array<Vec, 1> as_array(const Vec& result) {
  return {result};
}
template <typename Vec, size_t kOutputs>
std::array<Vec, kOutputs> as_array(const std::array<Vec, kOutputs>& results) {
  return results;
}

/// Calls Op<T> on float or double: half and bfloat16 are widened, and rounded once. (A call would
/// pass the vectors through memory.)
template <typename T, template <typename> typename Op, typename... Inputs>
C10_ALWAYS_INLINE auto widened(const Inputs&... inputs) {
  if constexpr (at::vec::is_reduced_floating_point_v<T>) {
    const auto halves = [](const auto&... wide) {
      return std::pair(as_array(Op<T>()(std::get<0>(wide)...)),
                       as_array(Op<T>()(std::get<1>(wide)...)));
    }(at::vec::convert_to_float<T>(inputs)...);
    Results<T, std::tuple_size_v<decltype(halves.first)>> results;
    for (size_t k = 0; k < results.size(); ++k) {
      results[k] = at::vec::convert_from_float<T>(halves.first[k], halves.second[k]);
    }
    return results;
  } else {
    return as_array(Op<T>()(inputs...));
  }
}

/// An ElementwiseLoop of a stateless `Op<T>` on `kInputs` inputs of type T. It sees vectors of
/// float or double and returns one, or an array of kOutputs, which will be rounded to T.
template <typename T, size_t kInputs, size_t kOutputs, template <typename> typename Op>
void elementwise_loop(char** data, const int64_t* strides, int64_t size0, int64_t size1) {
  const auto op = [](const auto&... inputs) { return widened<T, Op>(inputs...); };
  elementwise_rows<T, kOutputs>(data, strides, size0, size1, op,
                                std::make_index_sequence<kInputs>());
}

/// The loop for a floating dtype, nullptr for others.
template <size_t kInputs, size_t kOutputs, template <typename> typename Op>
ElementwiseLoop* elementwise_loop_for(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::Float:
      return elementwise_loop<float, kInputs, kOutputs, Op>;
    case c10::ScalarType::Double:
      return elementwise_loop<double, kInputs, kOutputs, Op>;
    case c10::ScalarType::Half:
      return elementwise_loop<c10::Half, kInputs, kOutputs, Op>;
    case c10::ScalarType::BFloat16:
      return elementwise_loop<c10::BFloat16, kInputs, kOutputs, Op>;
    default:
      return nullptr;
  }
}

}  // namespace CPU_CAPABILITY
}  // namespace scramjet::ops
