#pragma once

#include <ATen/cpu/vec/vec.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "ops/vector_pair.h"

/// The scores that softmax is taken of, input * scale + mask, for the sources of a cpu_kernel.
namespace scramjet::ops {
namespace CPU_CAPABILITY {

/// In place of a mask's type, where there is none.
struct NoMask {};

template <typename Number>
constexpr Number kLeftOut = -std::numeric_limits<Number>::infinity();

/// a * b - c, rounded once where the machine has it.
template <typename Number>
C10_ALWAYS_INLINE Pair<Number> multiply_subtract(const Pair<Number>& a, const Pair<Number>& b,
                                                 const Pair<Number>& c) {
  return {at::vec::fmsub(a.low, b.low, c.low), at::vec::fmsub(a.high, b.high, c.high)};
}

/// x where `mask` is true, -inf elsewhere.
template <typename Number>
C10_ALWAYS_INLINE at::vec::Vectorized<Number> keep(const at::vec::Vectorized<Number>& x,
                                                   const bool* mask) {
  constexpr int kLanes = at::vec::Vectorized<Number>::size();
  using Int = at::vec::int_same_size_t<Number>;
  alignas(64) Int wide[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) wide[lane] = -static_cast<Int>(mask[lane]);
  const auto kept = at::vec::Vectorized<Number>::loadu(wide);
  return at::vec::Vectorized<Number>::blendv(at::vec::Vectorized<Number>(kLeftOut<Number>), x,
                                             kept);
}

#if defined(CPU_CAPABILITY_AVX512)
C10_ALWAYS_INLINE at::vec::Vectorized<float> keep(const at::vec::Vectorized<float>& x,
                                                  const bool* mask) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(mask));
  return _mm512_mask_blend_ps(_mm_test_epi8_mask(bytes, bytes), _mm512_set1_ps(kLeftOut<float>), x);
}
#elif defined(CPU_CAPABILITY_AVX2)
C10_ALWAYS_INLINE at::vec::Vectorized<float> keep(const at::vec::Vectorized<float>& x,
                                                  const bool* mask) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(mask));
  // A bool is 0 or 1; blendv asks for the sign.
  const __m256i kept = _mm256_slli_epi32(_mm256_cvtepu8_epi32(bytes), 31);
  return _mm256_blendv_ps(_mm256_set1_ps(kLeftOut<float>), x, _mm256_castsi256_ps(kept));
}
#endif

/// The scores of a row, minus `subtracted`, by pairs. Lanes beyond `count` are -inf.
template <typename T, typename Mask>
class Scores {
  using Number = Compute<T>;
  using Vec = at::vec::Vectorized<Number>;

 public:
  Scores(const T* input, const Mask* mask, Number scale)
      : input_(input), mask_(mask), scale_(scale) {}

  C10_ALWAYS_INLINE Pair<Number> minus(const Pair<Number>& subtracted, int64_t i,
                                       Whole<T> count) const {
    const Pair<Number> x = load_pair(input_ + i, count);
    if constexpr (std::is_same_v<Mask, bool>) {
      return keep(multiply_subtract(x, scale_, subtracted), mask_ + i);
    } else {
      return sum(x, subtracted, i, count);
    }
  }

  Pair<Number> minus(const Pair<Number>& subtracted, int64_t i, int64_t count) const {
    const Pair<Number> x = load_pair(input_ + i, count);
    if constexpr (std::is_same_v<Mask, bool>) {
      bool mask[Whole<T>::value] = {};
      for (int64_t lane = 0; lane < count; ++lane) mask[lane] = mask_[i + lane];
      return keep(multiply_subtract(x, scale_, subtracted), mask);
    } else {
      return masked(sum(x, subtracted, i, count), count, kLeftOut<Number>);
    }
  }

 private:
  static C10_ALWAYS_INLINE Pair<Number> keep(const Pair<Number>& x, const bool* mask) {
    return {CPU_CAPABILITY::keep(x.low, mask), CPU_CAPABILITY::keep(x.high, mask + Vec::size())};
  }

  template <typename Count>
  C10_ALWAYS_INLINE Pair<Number> sum(const Pair<Number>& x, const Pair<Number>& subtracted,
                                     int64_t i, Count count) const {
    if constexpr (std::is_same_v<Mask, NoMask>) {
      return multiply_subtract(x, scale_, subtracted);
    } else {
      return multiply_add(x, scale_, load_pair(mask_ + i, count)) - subtracted;
    }
  }

  const T* input_;
  const Mask* mask_;
  Pair<Number> scale_;
};

/// The larger of each two numbers; of NaN and a number either.
template <typename Number>
C10_ALWAYS_INLINE Pair<Number> larger(const Pair<Number>& a, const Pair<Number>& b) {
  return {at::vec::clamp_min(a.low, b.low), at::vec::clamp_min(a.high, b.high)};
}

/// The largest of a row's scores; anything where one is NaN.
template <typename T, typename Mask>
C10_ALWAYS_INLINE Compute<T> row_max(int64_t columns, const Scores<T, Mask>& scores) {
  using Number = Compute<T>;
  using Vec = at::vec::Vectorized<Number>;
  constexpr int64_t kStep = Whole<T>::value;
  constexpr size_t kChains = 4;  // Side by side, since one would wait for each comparison.
  std::array<Pair<Number>, kChains> chains;
  unrolled<kChains>([&](auto k) { chains[k] = Pair<Number>(kLeftOut<Number>); });
  const Pair<Number> zero;
  int64_t i = 0;
  for (; i + static_cast<int64_t>(kChains) * kStep <= columns; i += kChains * kStep) {
    unrolled<kChains>([&](auto k) {
      chains[k] = larger(scores.minus(zero, i + k * kStep, Whole<T>()), chains[k]);
    });
  }
  for (; i + kStep <= columns; i += kStep) {
    chains[0] = larger(scores.minus(zero, i, Whole<T>()), chains[0]);
  }
  if (i < columns) chains[0] = larger(scores.minus(zero, i, columns - i), chains[0]);
  const auto max = larger(larger(chains[0], chains[1]), larger(chains[2], chains[3]));
  return at::vec::vec_reduce_all<Number>([](Vec a, Vec b) { return at::vec::clamp_min(a, b); },
                                         at::vec::clamp_min(max.low, max.high));
}

}  // namespace CPU_CAPABILITY
}  // namespace scramjet::ops
