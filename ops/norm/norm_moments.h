#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ops/vector_pair.h"

/// The mean and the deviation of a row, in one pass over it, for the CPU kernels of the norms.
namespace scramjet::ops {
namespace CPU_CAPABILITY {

/// What a row's normalized elements are made of: (x - center) * rstd + shift. The center is the
/// mean rounded, the shift what the rounding lost: far from zero that is much of the deviation.
template <typename Number>
struct Moments {
  Number center;
  Number rstd;
  Number shift;
};

inline double inverse_root(double variance, double eps) { return 1 / std::sqrt(variance + eps); }

template <typename T>
Moments<Compute<T>> rms_moments(const T* x, int64_t columns, double eps) {
  const auto [squares] = row_sums<T, 1>(columns, [&](int64_t i, auto count, auto& sums) {
    const auto value = load_pair(x + i, count);
    sums[0] = multiply_add(value, value, sums[0]);
  });
  return {0, static_cast<Compute<T>>(inverse_root(squares / columns, eps)), 0};
}

template <typename T>
Compute<T> mean_of(const T* x, int64_t columns) {
  const auto [sum] = row_sums<T, 1>(columns, [&](int64_t i, auto count, auto& sums) {
    sums[0] = sums[0] + load_pair(x + i, count);
  });
  return static_cast<Compute<T>>(sum / columns);
}

template <typename T>
Compute<T> mean_of_first_elements(const T* x, int64_t columns) {
  constexpr Whole<T> kCount;
  if (columns < kCount) return mean_of(x, columns);
  return sum_of_lanes(load_pair(x, kCount)) / kCount;
}

/// Whether c is near enough to the mean for corrected_variance, from the sums of (x - c) and of its
/// square: where it is more than the standard deviation off, digits cancel. NaN is near.
inline bool is_far(double sum, double squares, int64_t columns) {
  return sum * sum > 0.5 * squares * columns;
}

/// The variance from the sums of (x - c) and its square, for a c near the mean: the corrected
/// two-pass algorithm (Chan, Golub, LeVeque 1983, equation 1.7).
inline double corrected_variance(double sum, double squares, int64_t columns) {
  const double variance = (squares - sum * sum / columns) / columns;
  return variance < 0 ? 0 : variance;  // NaN stays.
}

/// Calls sums_around(center) for a center near the mean of the row: for the mean of its first
/// elements, which a single pass over the row gives, or else for its own.
template <typename T, typename SumsAround>
C10_ALWAYS_INLINE auto sums_near_mean(const T* x, int64_t columns, Compute<T>& center,
                                      const SumsAround& sums_around) {
  center = mean_of_first_elements(x, columns);
  auto sums = sums_around(Pair<Compute<T>>(center));
  if (C10_UNLIKELY(is_far(sums[0], sums[1], columns))) {
    center = mean_of(x, columns);
    sums = sums_around(Pair<Compute<T>>(center));
  }
  return sums;
}

template <typename T>
Moments<Compute<T>> layer_moments(const T* x, int64_t columns, double eps) {
  using Number = Compute<T>;
  Number center;
  const auto [sum, squares] = sums_near_mean(x, columns, center, [&](const Pair<Number>& centers) {
    return row_sums<T, 2>(columns, [&](int64_t i, auto count, auto& sums) {
      const auto value = masked(load_pair(x + i, count) - centers, count);
      sums[0] = sums[0] + value;
      sums[1] = multiply_add(value, value, sums[1]);
    });
  });
  const double rstd = inverse_root(corrected_variance(sum, squares, columns), eps);
  return {center, static_cast<Number>(rstd), static_cast<Number>(-sum / columns * rstd)};
}

/// A row's normalized elements.
template <typename Number, bool kCentered>
class Normalize {
 public:
  explicit Normalize(const Moments<Number>& moments)
      : center_(moments.center), rstd_(moments.rstd), shift_(moments.shift) {}

  C10_ALWAYS_INLINE Pair<Number> operator()(const Pair<Number>& x) const {
    if constexpr (kCentered) return multiply_add(x - center_, rstd_, shift_);
    return x * rstd_;
  }

 private:
  Pair<Number> center_;
  Pair<Number> rstd_;
  Pair<Number> shift_;
};

}  // namespace CPU_CAPABILITY
}  // namespace scramjet::ops
