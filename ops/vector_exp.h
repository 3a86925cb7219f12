#pragma once

#include <ATen/cpu/vec/vec.h>

#include <cstdint>
#include <limits>

/// For the sources of a cpu_kernel (ops/cpu_kernel.bzl).
namespace scramjet::ops {
namespace CPU_CAPABILITY {

/// exp, to the bit that of Vectorized::exp.
template <typename T>
at::vec::Vectorized<T> vector_exp(const at::vec::Vectorized<T>& x) {
  return x.exp();
}

#if defined(CPU_CAPABILITY_AVX2) || defined(CPU_CAPABILITY_AVX512)

/// The steps of Sleef's expf (u10, src/libm/sleefsimdsp.c, xexpf), which Vectorized::exp calls.
/// Inlined, two vectors' chains of dependent operations overlap; calls would run one by one.
inline at::vec::Vectorized<float> vector_exp(const at::vec::Vectorized<float>& x) {
  using Vec = at::vec::Vectorized<float>;
  using Int = at::vec::Vectorized<int32_t>;
  // x = q ln 2 + s, with ln 2 in two parts.
  const Vec scaled = x * Vec(1.442695040888963407359924681001892137f);
  const Vec q = scaled.round();
  Vec s = at::vec::fmadd(q, Vec(-0.693145751953125f), x);
  s = at::vec::fmadd(q, Vec(-1.428606765330187045e-06f), s);
  Vec u(0.000198527617612853646278381f);
  u = at::vec::fmadd(u, s, Vec(0.00139304355252534151077271f));
  u = at::vec::fmadd(u, s, Vec(0.00833336077630519866943359f));
  u = at::vec::fmadd(u, s, Vec(0.0416664853692054748535156f));
  u = at::vec::fmadd(u, s, Vec(0.166666671633720397949219f));
  u = at::vec::fmadd(u, s, Vec(0.5f));
  u = Vec(1.0f) + at::vec::fmadd(s * s, u, s);
  // Times 2^q, by two factors: 2^q alone may be out of range where the product is not.
  const Int exponent = at::vec::convert_to_int_of_same_size(q);  // (it truncates)
  const Int half = exponent >> Int(1);
  const auto power_of_two = [](const Int& n) {
    return at::vec::cast<float>((n + Int(127)) << Int(23));
  };
  u = u * power_of_two(half) * power_of_two(exponent - half);
  u = Vec::blendv(u, Vec(0.0f), x < Vec(-104.0f));
  return Vec::blendv(u, Vec(std::numeric_limits<float>::infinity()), x > Vec(100.0f));
}

#endif

}  // namespace CPU_CAPABILITY
}  // namespace scramjet::ops
