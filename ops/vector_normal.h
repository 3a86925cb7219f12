#pragma once

#include <ATen/cpu/vec/vec.h>

#include <array>
#include <cmath>

#include "ops/vector_exp.h"

/// For the sources of a cpu_kernel (ops/cpu_kernel.bzl): the standard normal distribution, which
/// GELU is made of.
namespace scramjet::ops {
namespace CPU_CAPABILITY {

/// The distribution function and the density at one vector of arguments.
template <typename Vec>
struct Normal {
  Vec cdf;
  Vec pdf;
};

inline constexpr double kInverseSqrt2Pi = 0.398942280401432677939946059934;

/// As exactly as a result needs it that is rounded to `Stored`.
template <typename Stored, typename T>
Normal<at::vec::Vectorized<T>> vector_normal(const at::vec::Vectorized<T>& x) {
  using Vec = at::vec::Vectorized<T>;
  const Vec cdf = Vec(0.5) * (Vec(1) + (x * Vec(M_SQRT1_2)).erf());
  return {cdf, Vec(kInverseSqrt2Pi) * vector_exp<Stored>(x * x * Vec(-0.5))};
}

/// cdf(-a) = exp(-a^2 / 2) t P(t), where t = 1 / (1 + scale a): the form of Hastings,
/// "Approximations for Digital Computers" (1955). P is the polynomial of its degree whose largest
/// relative error over 0 <= a <= 13.5 is least.
template <typename Stored>
struct NormalTail {  // error 1.1e-8
  static constexpr float kScale = 0.265F;
  static constexpr std::array kCoefficients = {0.03091281875F, -0.144663174F, 0.2186886598F,
                                               -0.1173368088F, 0.1386106726F, 0.06003852379F,
                                               0.1027701241F,  0.1052370713F, 0.1057421179F};
};

struct ShortNormalTail {  // error 4.6e-6
  static constexpr float kScale = 0.31F;
  static constexpr std::array kCoefficients = {-0.0739291478F, 0.180450364F, 0.0157446922F,
                                               0.133429794F,   0.120441273F, 0.123860703F};
};
template <>
struct NormalTail<c10::Half> : ShortNormalTail {};
template <>
struct NormalTail<c10::BFloat16> : ShortNormalTail {};

/// In float the tail comes first, so that it keeps its leading digits where 1 + erf(x / sqrt(2))
/// has lost them all (-5.6 and below). One exp serves the tail and the density, and no lane
/// branches.
template <typename Stored>
Normal<at::vec::Vectorized<float>> vector_normal(const at::vec::Vectorized<float>& x) {
  using Vec = at::vec::Vectorized<float>;
  constexpr auto& kCoefficients = NormalTail<Stored>::kCoefficients;
  const Vec exp = vector_exp<Stored>(x * x * Vec(-0.5F));
  const Vec t = Vec(1.0F) / at::vec::fmadd(x.abs(), Vec(NormalTail<Stored>::kScale), Vec(1.0F));
  Vec p(kCoefficients[0]);
  for (size_t i = 1; i < kCoefficients.size(); ++i) {
    p = at::vec::fmadd(p, t, Vec(kCoefficients[i]));
  }
  const Vec tail = exp * (p * t);
  return {Vec::blendv(tail, Vec(1.0F) - tail, x > Vec(0.0F)),
          Vec(static_cast<float>(kInverseSqrt2Pi)) * exp};
}

}  // namespace CPU_CAPABILITY
}  // namespace scramjet::ops
