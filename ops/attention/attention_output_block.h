#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "ops/attention/attention_query_block.h"
#include "ops/attention/attention_scores.h"
#include "ops/attention/attention_tiles.h"

namespace scramjet::ops {
namespace CPU_CAPABILITY {

/// The results of one block of queries while they grow, some keys at a time (Milakov and Gimelshein
/// 2018, "Online normalizer calculation for softmax", arXiv:1805.02867).
template <typename T>
class OutputBlock {
  using Number = Compute<T>;

 public:
  /// `sums`: memory for kQueryRows rows of padded(value_dim), the weighted sums of the values.
  OutputBlock(const AttentionProblem& problem, Number* sums)
      : problem_(problem), sums_(sums), step_(padded(problem.value_dim)) {}

  Number* sums() const { return sums_; }
  Number* sums(int64_t i) const { return sums_ + i * step_; }
  const RowState<Number>& state(int64_t i) const { return states_[i]; }

  void clear(int64_t rows) {
    std::fill(sums_, sums_ + rows * step_, Number(0));
    states_.fill({});
  }

  /// Turns `count` masked scores of row `i`, still to be multiplied by `scale`, into the weights of
  /// their values; to weigh those and add them to the sums is up to the caller.
  void weigh(int64_t i, Number scale, Number* scores, int64_t count) {
    const Number shift = raise(i, largest(scores, count) * scale);
    states_[i].sum += exponentiate<T>(scale, shift, scores, count);
  }

  /// Adds what other keys gave.
  void add(int64_t i, const RowState<Number>& other, const Number* other_sums) {
    const Number factor = std::exp(other.largest - raise(i, other.largest));
    states_[i].sum += other.sum * factor;
    for (int64_t k = 0; k < step_; ++k) sums(i)[k] += other_sums[k] * factor;
  }

  void store(const QueryBlock<T>& block) const {
    auto* logsumexp = reinterpret_cast<Number*>(problem_.logsumexp);
    for (int64_t i = 0; i < block.row_count(); ++i) {
      const auto [head, query] = block.position(i);
      const auto [largest, sum] = states_[i];
      narrow_row(sums(i), row_of<T>(problem_.output, block.batch(), head, query),
                 sum == 0 ? 0 : 1 / sum, problem_.value_dim);
      logsumexp[block.flat_position(i)] =
          sum == 0 ? kMinusInfinity<Number> : largest + std::log(sum);
    }
  }

 private:
  /// Takes a score into account that may be the largest, and returns what exponents are taken
  /// against: that score, but 0 where all is masked.
  Number raise(int64_t i, Number score) {
    auto& [largest, sum] = states_[i];
    const Number now = score > largest || std::isnan(score) ? score : largest;
    const Number shift = now == kMinusInfinity<Number> ? 0 : now;
    if (now != largest) {
      const Number factor = std::exp(largest - shift);
      sum *= factor;
      multiply_row(sums(i), factor, step_);
      largest = now;
    }
    return shift;
  }

  const AttentionProblem& problem_;
  Number* sums_;
  int64_t step_;
  std::array<RowState<Number>, kQueryRows> states_;
};

}  // namespace CPU_CAPABILITY
}  // namespace scramjet::ops
