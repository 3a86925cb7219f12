#pragma once

// How large the numbers of some tensors are, and what a floating-point format would make of them.
// The counts behind amp/inspect.h.
//
//     ValueRange range(kFloat16);
//     range.add(activations);
//     range.overflowed();       // finite numbers that would become inf
//     range.flushed();          // numbers that would become 0
//     range.exponents().at(-3)  // how many have a magnitude in [1/8, 1/4)

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>

#include "amp/float_format.h"

namespace scramjet::amp {

class ValueRange {
 public:
  explicit ValueRange(FloatFormat format) : format_(format) {}

  /// Counts the elements of a floating-point tensor of any shape, layout (strided) and device, as
  /// they are: half tensors too. Nothing is kept of `values`.
  void add(const at::Tensor& values);

  const FloatFormat& format() const { return format_; }

  /// All elements: zeros, infinities and NaNs too.
  int64_t count() const { return count_; }
  int64_t zeros() const { return zeros_; }
  int64_t infinities() const { return infinities_; }
  int64_t nans() const { return nans_; }
  /// Finite ones that are above what the format rounds to its largest number.
  int64_t overflowed() const { return overflowed_; }
  /// Those that are not 0 and would be.
  int64_t flushed() const { return flushed_; }
  /// Those that would be subnormal, and so keep fewer than the format's mantissa bits.
  int64_t subnormal() const { return subnormal_; }
  /// Of the numbers that are finite and not 0, the largest and the smallest magnitude; 0 where
  /// there are none.
  double largest() const { return largest_; }
  double smallest() const { return smallest_; }

  /// By e, the number of magnitudes in [2^e, 2^(e+1)). Zeros, infinities and NaNs have no place.
  const std::map<int, int64_t>& exponents() const { return exponents_; }

  /// Those that are not 0 and would be below half of the format's smallest subnormal after a
  /// multiplication by 2^log2_scale.
  int64_t flushed_at(int log2_scale) const;

 private:
  FloatFormat format_;
  int64_t count_ = 0, zeros_ = 0, infinities_ = 0, nans_ = 0;
  int64_t overflowed_ = 0, flushed_ = 0, subnormal_ = 0;
  double largest_ = 0, smallest_ = 0;
  std::map<int, int64_t> exponents_;
};

}  // namespace scramjet::amp
