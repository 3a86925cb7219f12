#pragma once

// What a narrow floating-point format can hold: range, precision, and what becomes of one number.
// Use it to choose a dtype for autocast, to explain a rounding error, or as a test's oracle. All of
// it follows from the numbers of exponent and mantissa bits; std::numeric_limits for formats that
// C++ does not have.
//
//     kFloat16.max();               // 65504
//     kFloat16.spacing(100);        // 0.0625: of all numbers in [64, 128)
//     kFloat16.round(100.3);        // 100.3125
//     kFloat16.next_below(100.3);   // 100.25
//     kFloat16.round(70000);        // inf
//
// Numbers are passed as double, which holds those of every format here. Rounding is to nearest,
// ties to even, and of the double itself. torch's cast from double to half, bfloat16 and fp8 goes
// through float and so rounds twice: `tensor.to(dtype)` is round(static_cast<float>(x)), at most
// one spacing away and only where the float falls on a tie. From a float tensor, both agree.
//
// tf32 is what Ampere's tensor cores and later read of a float: no dtype of torch. Some of the
// hardware's conversions round its ties away from zero; here they go to even like the rest.

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace scramjet::amp {

class FloatFormat {
 public:
  /// What the codes stand for that IEEE 754 spends on infinities and NaNs; as dtype suffixes.
  enum class Specials {
    ieee,  ///< the largest exponent: infinities and NaNs
    fn,    ///< finite: no infinity; NaN is all ones, the other codes are numbers
    fnuz,  ///< as fn, and unsigned zero: NaN is the code of -0, and the bias is larger by 1
  };

  constexpr FloatFormat(std::string_view name, int exponent_bits, int mantissa_bits,
                        Specials specials = Specials::ieee)
      : name_(name),
        exponent_bits_(exponent_bits),
        mantissa_bits_(mantissa_bits),
        specials_(specials) {}

  constexpr std::string_view name() const { return name_; }
  /// With the sign; tf32 has 19, in the 32 of a float.
  constexpr int bits() const { return 1 + exponent_bits_ + mantissa_bits_; }
  constexpr int exponent_bits() const { return exponent_bits_; }
  /// Stored ones: the leading 1 of a normal number is not.
  constexpr int mantissa_bits() const { return mantissa_bits_; }
  constexpr int bias() const {
    return (1 << (exponent_bits_ - 1)) - (specials_ == Specials::fnuz ? 0 : 1);
  }
  constexpr bool has_infinity() const { return specials_ == Specials::ieee; }

  /// The exponents of normal numbers 1.m * 2^e.
  constexpr int min_exponent() const { return 1 - bias(); }
  constexpr int max_exponent() const {
    return (1 << exponent_bits_) - 1 - bias() - (has_infinity() ? 1 : 0);
  }

  /// The largest finite number.
  double max() const;
  double lowest() const { return -max(); }
  double smallest_normal() const;
  double smallest_subnormal() const;
  /// The machine epsilon: from 1 to the next number.
  double epsilon() const;

  /// From `value`'s magnitude, rounded towards zero, to the next number. NaN beyond max().
  double spacing(double value) const;

  /// The nearest number of the format. Beyond max(), from half a spacing on, what torch's cast
  /// gives, infinities included: an infinity (ieee), max() with the sign (fn; NaN in torch 2.11,
  /// pytorch/pytorch#178817), NaN (fnuz).
  double round(double value) const;

  /// The format's nearest number above, or below, `value`, which need not be one. Where none is
  /// left: an infinity, else NaN.
  double next_above(double value) const;
  double next_below(double value) const;

  /// The code of round(value), and the number of a code. A NaN loses its payload.
  uint64_t encode(double value) const;
  double decode(uint64_t code) const;

 private:
  // Of the last mantissa bit of numbers of this magnitude.
  int last_place(double magnitude) const;
  double after_max() const;
  double step_up(double magnitude) const;
  double step_down(double magnitude) const;

  std::string_view name_;
  int exponent_bits_;
  int mantissa_bits_;
  Specials specials_;
};

inline constexpr FloatFormat kFloat64("fp64", 11, 52);
inline constexpr FloatFormat kFloat32("fp32", 8, 23);
inline constexpr FloatFormat kTF32("tf32", 8, 10);
inline constexpr FloatFormat kFloat16("fp16", 5, 10);
inline constexpr FloatFormat kBFloat16("bf16", 8, 7);
inline constexpr FloatFormat kFloat8E4M3FN("fp8_e4m3fn", 4, 3, FloatFormat::Specials::fn);
inline constexpr FloatFormat kFloat8E5M2("fp8_e5m2", 5, 2);
inline constexpr FloatFormat kFloat8E4M3FNUZ("fp8_e4m3fnuz", 4, 3, FloatFormat::Specials::fnuz);
inline constexpr FloatFormat kFloat8E5M2FNUZ("fp8_e5m2fnuz", 5, 2, FloatFormat::Specials::fnuz);

/// All of the above, in that order.
std::span<const FloatFormat> float_formats();

/// The format of a torch dtype; none where `dtype` is not floating-point, or not above.
std::optional<FloatFormat> float_format(c10::ScalarType dtype);

}  // namespace scramjet::amp
