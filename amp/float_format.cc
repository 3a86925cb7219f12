#include "amp/float_format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace scramjet::amp {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

constexpr std::array kFormats = {kFloat64,    kFloat32,        kTF32,
                                 kFloat16,    kBFloat16,       kFloat8E4M3FN,
                                 kFloat8E5M2, kFloat8E4M3FNUZ, kFloat8E5M2FNUZ};

double power_of_two(int exponent) { return std::ldexp(1.0, exponent); }

// Not std::nearbyint, which follows the thread's rounding mode.
double round_half_to_even(double magnitude) {
  const double down = std::floor(magnitude);
  const double rest = magnitude - down;
  const bool up = rest > 0.5 || (rest == 0.5 && std::fmod(down, 2) == 1);
  return up ? down + 1 : down;
}

}  // namespace

double FloatFormat::max() const {
  // In units of the last place; fn gives the code of all ones to NaN.
  const double mantissa = power_of_two(mantissa_bits_ + 1) - (specials_ == Specials::fn ? 2 : 1);
  return std::ldexp(mantissa, max_exponent() - mantissa_bits_);
}

double FloatFormat::smallest_normal() const { return power_of_two(min_exponent()); }

double FloatFormat::smallest_subnormal() const {
  return power_of_two(min_exponent() - mantissa_bits_);
}

double FloatFormat::epsilon() const { return power_of_two(-mantissa_bits_); }

int FloatFormat::last_place(double magnitude) const {
  const int exponent = magnitude == 0 ? min_exponent() : std::ilogb(magnitude);
  return std::max(exponent, min_exponent()) - mantissa_bits_;
}

double FloatFormat::after_max() const { return has_infinity() ? kInfinity : kNaN; }

double FloatFormat::spacing(double value) const {
  const double magnitude = std::fabs(value);
  return magnitude <= max() ? power_of_two(last_place(magnitude)) : kNaN;
}

double FloatFormat::round(double value) const {
  double magnitude = std::fabs(value);
  if (std::isnan(value)) return kNaN;
  if (std::isfinite(value)) {
    const int place = last_place(magnitude);
    magnitude = std::ldexp(round_half_to_even(std::ldexp(magnitude, -place)), place);
  }
  if (magnitude > max()) magnitude = specials_ == Specials::fn ? max() : after_max();
  if (magnitude == 0 && specials_ == Specials::fnuz) return 0;
  return std::copysign(magnitude, value);
}

double FloatFormat::step_up(double magnitude) const {
  if (magnitude >= max()) return after_max();
  const int place = last_place(magnitude);
  return std::ldexp(std::floor(std::ldexp(magnitude, -place)) + 1, place);
}

double FloatFormat::step_down(double magnitude) const {
  if (magnitude > max()) return max();
  int place = last_place(magnitude);
  // The numbers below a power of two are twice as dense, but for the subnormal ones.
  if (magnitude > smallest_normal() && magnitude == power_of_two(std::ilogb(magnitude))) --place;
  return std::ldexp(std::ceil(std::ldexp(magnitude, -place)) - 1, place);
}

double FloatFormat::next_above(double value) const {
  if (std::isnan(value)) return kNaN;
  return value >= 0 ? step_up(value) : 0.0 - step_down(-value);
}

double FloatFormat::next_below(double value) const {
  if (std::isnan(value)) return kNaN;
  return value <= 0 ? -step_up(-value) : step_down(value);
}

uint64_t FloatFormat::encode(double value) const {
  const double number = round(value);
  const uint64_t sign = uint64_t{1} << (bits() - 1);
  const uint64_t infinity = ((uint64_t{1} << exponent_bits_) - 1) << mantissa_bits_;
  if (std::isnan(number)) {
    if (specials_ == Specials::fnuz) return sign;
    // IEEE: a quiet one.
    return specials_ == Specials::fn ? sign - 1 : infinity | uint64_t{1} << (mantissa_bits_ - 1);
  }
  const double magnitude = std::fabs(number);
  uint64_t code = infinity;
  if (std::isfinite(magnitude)) {
    // The leading 1 of a normal number adds 1 to the exponent's code.
    const int place = last_place(magnitude);
    code = static_cast<uint64_t>(place + mantissa_bits_ - min_exponent()) << mantissa_bits_;
    code += static_cast<uint64_t>(std::ldexp(magnitude, -place));
  }
  return std::signbit(number) ? code | sign : code;
}

double FloatFormat::decode(uint64_t code) const {
  const uint64_t sign = uint64_t{1} << (bits() - 1);
  const uint64_t mantissa = code & ((uint64_t{1} << mantissa_bits_) - 1);
  const auto exponent = static_cast<int>((code & (sign - 1)) >> mantissa_bits_);
  if (specials_ == Specials::fnuz && code == sign) return kNaN;
  if (specials_ == Specials::fn && (code & (sign - 1)) == sign - 1) return kNaN;
  double magnitude;
  if (has_infinity() && exponent == (1 << exponent_bits_) - 1) {
    if (mantissa != 0) return kNaN;
    magnitude = kInfinity;
  } else {
    const uint64_t leading = exponent == 0 ? 0 : uint64_t{1} << mantissa_bits_;
    magnitude = std::ldexp(static_cast<double>(mantissa + leading),
                           std::max(exponent, 1) - bias() - mantissa_bits_);
  }
  return (code & sign) != 0 ? -magnitude : magnitude;
}

std::span<const FloatFormat> float_formats() { return kFormats; }

std::optional<FloatFormat> float_format(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::Double:
      return kFloat64;
    case c10::ScalarType::Float:
      return kFloat32;
    case c10::ScalarType::Half:
      return kFloat16;
    case c10::ScalarType::BFloat16:
      return kBFloat16;
    case c10::ScalarType::Float8_e4m3fn:
      return kFloat8E4M3FN;
    case c10::ScalarType::Float8_e5m2:
      return kFloat8E5M2;
    case c10::ScalarType::Float8_e4m3fnuz:
      return kFloat8E4M3FNUZ;
    case c10::ScalarType::Float8_e5m2fnuz:
      return kFloat8E5M2FNUZ;
    default:
      return std::nullopt;
  }
}

}  // namespace scramjet::amp
