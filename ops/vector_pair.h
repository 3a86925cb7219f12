#pragma once

#include <ATen/cpu/vec/functional.h>
#include <ATen/cpu/vec/vec.h>
#include <c10/macros/Macros.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

/// Rows of numbers for the sources of a cpu_kernel (ops/cpu_kernel.bzl): what one vector of half or
/// bfloat16 holds is two of float, so rows are walked by pairs of vectors, in every dtype.
///
///     for_each_pair<T>(columns, [&](int64_t i, auto count) {
///       store_pair(load_pair(x + i, count) * Pair<Compute<T>>(scale), y + i, count);
///     });
///     const auto [sum] = row_sums<T, 1>(columns, [&](int64_t i, auto count, auto& sums) {
///       sums[0] = sums[0] + load_pair(x + i, count);
///     });
///
/// `count` is the number of elements from i on; it is a constant but for the end of the row. Lanes
/// beyond it are loaded as 0 and not stored; masked() makes them 0, or another number, where a
/// computation has not.
namespace scramjet::ops {
namespace CPU_CAPABILITY {

/// The type that T computes in.
template <typename T>
using Compute = std::conditional_t<at::vec::is_reduced_floating_point_v<T>, float, T>;

template <typename Number>
struct Pair {
  using Vec = at::vec::Vectorized<Number>;
  static constexpr int64_t kSize = 2 * Vec::size();

  Vec low{Number(0)};
  Vec high{Number(0)};

  Pair() = default;
  Pair(const Vec& low, const Vec& high) : low(low), high(high) {}
  explicit Pair(Number x) : low(x), high(x) {}

  friend C10_ALWAYS_INLINE Pair operator+(const Pair& a, const Pair& b) {
    return {a.low + b.low, a.high + b.high};
  }
  friend C10_ALWAYS_INLINE Pair operator-(const Pair& a, const Pair& b) {
    return {a.low - b.low, a.high - b.high};
  }
  friend C10_ALWAYS_INLINE Pair operator*(const Pair& a, const Pair& b) {
    return {a.low * b.low, a.high * b.high};
  }
};

/// a * b + c, rounded once where the machine has it.
template <typename Number>
C10_ALWAYS_INLINE Pair<Number> multiply_add(const Pair<Number>& a, const Pair<Number>& b,
                                            const Pair<Number>& c) {
  return {at::vec::fmadd(a.low, b.low, c.low), at::vec::fmadd(a.high, b.high, c.high)};
}

template <typename Number>
Number sum_of_lanes(const Pair<Number>& x) {
  using Vec = at::vec::Vectorized<Number>;
  return at::vec::vec_reduce_all<Number>([](Vec a, Vec b) { return a + b; }, x.low + x.high);
}

/// The count of a whole pair.
template <typename T>
using Whole = std::integral_constant<int64_t, Pair<Compute<T>>::kSize>;

template <typename T>
C10_ALWAYS_INLINE Pair<Compute<T>> load_pair(const T* data, Whole<T> /*count*/) {
  using Vec = at::vec::Vectorized<T>;
  if constexpr (at::vec::is_reduced_floating_point_v<T>) {
    const auto [low, high] = at::vec::convert_to_float<T>(Vec::loadu(data));
    return {low, high};
  } else {
    return {Vec::loadu(data), Vec::loadu(data + Vec::size())};
  }
}

/// How many of `count` elements stand in the low vector, and in the high one.
template <typename Number>
std::pair<int64_t, int64_t> split_count(int64_t count) {
  constexpr int64_t kLanes = at::vec::Vectorized<Number>::size();
  return {std::min(count, kLanes), std::max<int64_t>(count - kLanes, 0)};
}

template <typename T>
Pair<Compute<T>> load_pair(const T* data, int64_t count) {
  using Vec = at::vec::Vectorized<T>;
  if constexpr (at::vec::is_reduced_floating_point_v<T>) {
    const auto [low, high] = at::vec::convert_to_float<T>(Vec::loadu(data, count));
    return {low, high};
  } else {
    const auto [low, high] = split_count<T>(count);
    return {Vec::loadu(data, low), high > 0 ? Vec::loadu(data + low, high) : Vec(0)};
  }
}

template <typename T>
C10_ALWAYS_INLINE void store_pair(const Pair<Compute<T>>& x, T* data, Whole<T> /*count*/) {
  if constexpr (at::vec::is_reduced_floating_point_v<T>) {
    at::vec::convert_from_float<T>(x.low, x.high).store(data);
  } else {
    x.low.store(data);
    x.high.store(data + at::vec::Vectorized<T>::size());
  }
}

template <typename T>
void store_pair(const Pair<Compute<T>>& x, T* data, int64_t count) {
  if constexpr (at::vec::is_reduced_floating_point_v<T>) {
    at::vec::convert_from_float<T>(x.low, x.high).store(data, static_cast<int>(count));
  } else {
    const auto [low, high] = split_count<T>(count);
    x.low.store(data, static_cast<int>(low));
    if (high > 0) x.high.store(data + low, static_cast<int>(high));
  }
}

template <typename Number>
C10_ALWAYS_INLINE Pair<Number> masked(const Pair<Number>& x, Whole<Number> /*count*/,
                                      Number /*beyond*/ = 0) {
  return x;
}

template <typename Number>
Pair<Number> masked(const Pair<Number>& x, int64_t count, Number beyond = 0) {
  using Vec = at::vec::Vectorized<Number>;
  const auto [low, high] = split_count<Number>(count);
  return {Vec::set(Vec(beyond), x.low, low), Vec::set(Vec(beyond), x.high, high)};
}

/// Calls body(i, count) for each pair of a row.
template <typename T, typename Body>
C10_ALWAYS_INLINE void for_each_pair(int64_t columns, const Body& body) {
  int64_t i = 0;
  for (; i + Whole<T>::value <= columns; i += Whole<T>::value) body(i, Whole<T>());
  if (i < columns) body(i, columns - i);
}

/// Calls body(k), k a constant, for each k below kCount: a loop that leaves arrays in registers.
template <size_t kCount, typename Body>
C10_ALWAYS_INLINE void unrolled(const Body& body) {
  const auto call_all = [&]<size_t... k>(std::index_sequence<k...>) C10_ALWAYS_INLINE_ATTRIBUTE {
    (body(std::integral_constant<size_t, k>()), ...);
  };
  call_all(std::make_index_sequence<kCount>());
}

/// Sums over a row: add(i, count, sums) adds the terms of one pair to its kSums sums.
///
/// Several sums grow side by side, since one would wait for each addition; blocks of the row are
/// added in double, so that a long row loses no digits.
template <typename T, size_t kSums, typename Add>
C10_ALWAYS_INLINE std::array<double, kSums> row_sums(int64_t columns, const Add& add) {
  using Number = Compute<T>;
  using Sums = std::array<Pair<Number>, kSums>;
  constexpr int64_t kStep = Whole<T>::value;
  constexpr size_t kChains = kSums < 4 ? 4 / kSums : 1;
  constexpr int64_t kBlock = 4096;
  std::array<double, kSums> result{};
  int64_t i = 0;
  while (i < columns) {
    const int64_t end = std::min(columns, i + kBlock);
    std::array<Sums, kChains> chains;
    for (; i + static_cast<int64_t>(kChains) * kStep <= end; i += kChains * kStep) {
      unrolled<kChains>([&](auto k) { add(i + k * kStep, Whole<T>(), chains[k]); });
    }
    for (; i + kStep <= end; i += kStep) add(i, Whole<T>(), chains[0]);
    if (i < end) add(i, end - i, chains[0]);
    i = end;
    unrolled<kSums>([&](auto sum) {
      Pair<Number> total = chains[0][sum];
      unrolled<kChains - 1>([&](auto k) { total = total + chains[k + 1][sum]; });
      result[sum] += static_cast<double>(sum_of_lanes(total));
    });
  }
  return result;
}

}  // namespace CPU_CAPABILITY
}  // namespace scramjet::ops
