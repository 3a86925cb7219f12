#pragma once

#include <ATen/cpu/vec/vec.h>

#include <cstdint>
#include <type_traits>

/// For the sources of a cpu_kernel (ops/cpu_kernel.bzl).
namespace scramjet::ops {
namespace CPU_CAPABILITY {

/// exp, as exactly as a result needs it that is rounded to `Stored`: to the bit that of
/// Vectorized::exp for float and double, within 6e-6 for half and bfloat16.
template <typename Stored, typename T>
at::vec::Vectorized<T> vector_exp(const at::vec::Vectorized<T>& x) {
  return x.exp();
}

#if defined(CPU_CAPABILITY_AVX2) || defined(CPU_CAPABILITY_AVX512)

/// u 2^q, where 2^q alone may be out of range; q is whole, u near 1.
inline at::vec::Vectorized<float> times_power_of_two(const at::vec::Vectorized<float>& u,
                                                     const at::vec::Vectorized<float>& q) {
#if defined(CPU_CAPABILITY_AVX512)
  return _mm512_scalef_ps(u, q);
#else
  using Int = at::vec::Vectorized<int32_t>;
  const Int exponent = at::vec::convert_to_int_of_same_size(q);  // (it truncates)
  const Int half = exponent >> Int(1);
  const auto power_of_two = [](const Int& n) {
    return at::vec::cast<float>((n + Int(127)) << Int(23));
  };
  return u * power_of_two(half) * power_of_two(exponent - half);
#endif
}

/// The steps of Sleef's expf (u10, src/libm/sleefsimdsp.c, xexpf), which Vectorized::exp calls.
/// Inlined, two vectors' chains of dependent operations overlap; calls would run one by one. The
/// shorter polynomial has the least largest relative error between -ln(2) / 2 and ln(2) / 2.
template <typename Stored>
at::vec::Vectorized<float> vector_exp(const at::vec::Vectorized<float>& x) {
  using Vec = at::vec::Vectorized<float>;
  // What is beyond is 0 or infinity, and NaN stays (at::vec::clamp's order of operands).
  const Vec in_range = at::vec::clamp(x, Vec(-104.0f), Vec(104.0f));
  // x = q ln 2 + s, with ln 2 in two parts.
  const Vec q = (in_range * Vec(1.442695040888963407359924681001892137f)).round();
  Vec s = at::vec::fmadd(q, Vec(-0.693145751953125f), in_range);
  s = at::vec::fmadd(q, Vec(-1.428606765330187045e-06f), s);
  Vec u;
  if constexpr (at::vec::is_reduced_floating_point_v<Stored>) {
    u = Vec(0.04127699f);
    u = at::vec::fmadd(u, s, Vec(0.16753687f));
    u = at::vec::fmadd(u, s, Vec(0.50005136f));
  } else {
    u = Vec(0.000198527617612853646278381f);
    u = at::vec::fmadd(u, s, Vec(0.00139304355252534151077271f));
    u = at::vec::fmadd(u, s, Vec(0.00833336077630519866943359f));
    u = at::vec::fmadd(u, s, Vec(0.0416664853692054748535156f));
    u = at::vec::fmadd(u, s, Vec(0.166666671633720397949219f));
    u = at::vec::fmadd(u, s, Vec(0.5f));
  }
  u = Vec(1.0f) + at::vec::fmadd(s * s, u, s);
  return times_power_of_two(u, q);
}

#endif

}  // namespace CPU_CAPABILITY
}  // namespace scramjet::ops
