#pragma once

#include <ATen/cpu/vec/functional.h>
#include <ATen/cpu/vec/vec.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "ops/attention/attention_tiles.h"
#include "ops/vector_exp.h"
#include "ops/vector_pair.h"

/// A row of scores, for the CPU kernels of attention: its mask, its largest and its exponentials.
namespace scramjet::ops {
namespace CPU_CAPABILITY {

template <typename Number>
constexpr Number kMinusInfinity = -std::numeric_limits<Number>::infinity();

/// scores[j] = scores[j] * scale + mask[j].
template <typename M, typename Number>
void add_mask(const M* mask, int64_t step, Number scale, Number* scores, int64_t count) {
  if (step == 1) {
    const Pair<Number> scales(scale);
    for_each_pair<M>(count, [&](int64_t j, auto pair) {
      const auto score = load_pair(scores + j, pair);
      store_pair<Number>(multiply_add(score, scales, load_pair(mask + j, pair)), scores + j, pair);
    });
    return;
  }
  for (int64_t j = 0; j < count; ++j) {
    scores[j] = scores[j] * scale + static_cast<Number>(mask[j * step]);
  }
}

/// scores[j] = mask[j] ? scores[j] * scale : -infinity.
template <typename Number>
void choose_by_mask(const uint8_t* mask, int64_t step, Number scale, Number* scores,
                    int64_t count) {
  const auto choose = [&](int64_t j, uint8_t is_seen) {
    const Number score = scores[j] * scale;
    scores[j] = is_seen != 0 ? score : kMinusInfinity<Number>;
  };
  if (step == 1) {  // A loop that the compiler makes vectors of.
    for (int64_t j = 0; j < count; ++j) choose(j, mask[j]);
  } else {
    for (int64_t j = 0; j < count; ++j) choose(j, mask[j * step]);
  }
}

/// Scales `count` scores, the first of which is that of key `first`, and applies the mask.
template <typename T, typename Number>
void apply_mask(const AttentionMask& mask, int64_t batch, int64_t head, int64_t query,
                int64_t first, Number scale, Number* scores, int64_t count) {
  const int64_t start = batch * mask.batch_step + head * mask.head_step + query * mask.query_step +
                        first * mask.key_step;
  switch (mask.kind) {
    case AttentionMask::kNone:
      break;
    case AttentionMask::kBool:
      return choose_by_mask(reinterpret_cast<const uint8_t*>(mask.data) + start, mask.key_step,
                            scale, scores, count);
    case AttentionMask::kOwn:
      return add_mask(reinterpret_cast<const T*>(mask.data) + start, mask.key_step, scale, scores,
                      count);
    case AttentionMask::kFloat:
      if constexpr (std::is_same_v<Number, float>) {
        add_mask(reinterpret_cast<const float*>(mask.data) + start, mask.key_step, scale, scores,
                 count);
      }
      break;
  }
}

/// The largest of `count` scores, a multiple of a vector; NaN where there is one.
template <typename Number>
Number largest(const Number* scores, int64_t count) {
  using Vec = at::vec::Vectorized<Number>;
  Vec result(kMinusInfinity<Number>);
  for (int64_t j = 0; j < count; j += Vec::size()) {
    result = at::vec::maximum(result, Vec::loadu(scores + j));
  }
  return at::vec::vec_reduce_all<Number>([](Vec a, Vec b) { return at::vec::maximum(a, b); },
                                         result);
}

/// Makes scores exp(score * scale - shift), and returns their sum. As exact as results need it that
/// are rounded to T.
template <typename T, typename Number>
Number exponentiate(Number scale, Number shift, Number* scores, int64_t count) {
  using Vec = at::vec::Vectorized<Number>;
  const Vec scales(scale);
  const Vec shifts(-shift);
  Vec sum(Number(0));
  for (int64_t j = 0; j < count; j += Vec::size()) {
    const Vec value = vector_exp<T>(at::vec::fmadd(Vec::loadu(scores + j), scales, shifts));
    value.store(scores + j);
    sum = sum + value;
  }
  return at::vec::vec_reduce_all<Number>([](Vec a, Vec b) { return a + b; }, sum);
}

template <typename Number>
void multiply_row(Number* row, Number factor, int64_t count) {
  using Vec = at::vec::Vectorized<Number>;
  const Vec factors(factor);
  for (int64_t j = 0; j < count; j += Vec::size()) (Vec::loadu(row + j) * factors).store(row + j);
}

/// The largest score of a row so far, scaled, and the sum of the others' exponentials against it.
template <typename Number>
struct RowState {
  Number largest = kMinusInfinity<Number>;
  Number sum = 0;
};

}  // namespace CPU_CAPABILITY
}  // namespace scramjet::ops
