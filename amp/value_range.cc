#include "amp/value_range.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace scramjet::amp {
namespace {

// Those of double, subnormals included.
constexpr int kMinExponent = -1074;
constexpr int kMaxExponent = 1023;

/// The smallest magnitude that the format rounds to something else than a finite number.
double overflow_bound(const FloatFormat& format) {
  const double max = format.max();
  const double bound = max + format.spacing(max) / 2;
  // A tie goes to the even neighbour: away from max() where max() is odd, as all-ones mantissas
  // are.
  return std::abs(format.round(bound)) == max ? std::nextafter(bound, HUGE_VAL) : bound;
}

}  // namespace

void ValueRange::add(const at::Tensor& values) {
  TORCH_CHECK_TYPE(values.is_floating_point(),
                   "ValueRange::add: argument 'values' must be floating-point, got ",
                   values.scalar_type());
  const at::Tensor numbers = values.detach().to(at::kCPU, at::kDouble).contiguous();
  const double overflow = overflow_bound(format_);
  const double half_smallest = format_.smallest_subnormal() / 2;  // a tie, which goes to 0
  const double normal = format_.smallest_normal();
  std::array<int64_t, kMaxExponent - kMinExponent + 1> exponents{};
  double smallest = smallest_ > 0 ? smallest_ : std::numeric_limits<double>::infinity();
  const double* data = numbers.const_data_ptr<double>();
  for (int64_t k = 0; k < numbers.numel(); ++k) {
    const double magnitude = std::abs(data[k]);
    if (magnitude == 0) {
      ++zeros_;
    } else if (std::isnan(magnitude)) {
      ++nans_;
    } else if (std::isinf(magnitude)) {
      ++infinities_;
    } else {
      ++exponents[std::ilogb(magnitude) - kMinExponent];
      largest_ = std::max(largest_, magnitude);
      smallest = std::min(smallest, magnitude);
      overflowed_ += magnitude >= overflow;
      flushed_ += magnitude <= half_smallest;
      // A number just below the smallest normal one may round up to it: it keeps all its bits.
      subnormal_ +=
          magnitude > half_smallest && magnitude < normal && format_.round(magnitude) < normal;
    }
  }
  count_ += numbers.numel();
  smallest_ = std::isinf(smallest) ? 0 : smallest;
  for (size_t k = 0; k < exponents.size(); ++k) {
    if (exponents[k] > 0) exponents_[static_cast<int>(k) + kMinExponent] += exponents[k];
  }
}

int64_t ValueRange::flushed_at(int log2_scale) const {
  int64_t flushed = 0;
  const int half_smallest = std::ilogb(format_.smallest_subnormal()) - 1;
  for (const auto& [exponent, count] : exponents_) {
    if (exponent + log2_scale < half_smallest) flushed += count;
  }
  return flushed;
}

}  // namespace scramjet::amp
