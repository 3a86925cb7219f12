#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "ops/attention/attention_scores.h"
#include "ops/attention/attention_tiles.h"
#include "ops/vector_pair.h"

/// What the forward and the backward on CPU share: rows of operands, and one block of queries with
/// what they see.
namespace scramjet::ops {
namespace CPU_CAPABILITY {

template <typename T>
T* row_of(const AttentionOperand& x, int64_t batch, int64_t head, int64_t row) {
  return reinterpret_cast<T*>(x.data) + batch * x.batch_step + head * x.head_step +
         row * x.row_step;
}

/// A row in the type it is computed in, with zeros up to `padded_count`.
template <typename T>
void widen_row(const T* row, Compute<T>* wide, int64_t count, int64_t padded_count) {
  for_each_pair<T>(count, [&](int64_t i, auto pair) {
    store_pair<Compute<T>>(load_pair(row + i, pair), wide + i, pair);
  });
  std::fill(wide + count, wide + padded_count, Compute<T>(0));
}

template <typename T>
void narrow_row(const Compute<T>* wide, T* row, Compute<T> factor, int64_t count) {
  const Pair<Compute<T>> factors(factor);
  for_each_pair<T>(count, [&](int64_t i, auto pair) {
    store_pair<T>(load_pair(wide + i, pair) * factors, row + i, pair);
  });
}

/// [columns, kKeyRows] from the rows `keys` of one head of keys or values.
template <typename T>
void transpose_rows(const AttentionOperand& x, int64_t batch, int64_t head, KeyRange keys,
                    int64_t columns, Compute<T>* transposed) {
  using Number = Compute<T>;
  constexpr int64_t kSide = 16;  // Of the squares that registers transpose.
  constexpr int64_t kColumns = 2 * kSide;
  std::array<Number, kSide * kColumns> wide;
  for (int64_t first = keys.begin; first < keys.end; first += kSide) {
    const int64_t rows = std::min(kSide, keys.end - first);
    for (int64_t column = 0; column < columns; column += kColumns) {
      const int64_t count = std::min(kColumns, columns - column);
      for (int64_t j = 0; j < rows; ++j) {
        widen_row(row_of<const T>(x, batch, head, first + j) + column, wide.data() + j * kColumns,
                  count, count);
      }
      Number* to = transposed + column * kKeyRows + (first - keys.begin);
      int64_t i = 0;
      if (rows == kSide) {
        for (; i + kSide <= count; i += kSide) {
          at::vec::transpose_mxn<Number, kSide, kSide>(wide.data() + i, kColumns, to + i * kKeyRows,
                                                       kKeyRows);
        }
      }
      for (; i < count; ++i) {
        for (int64_t j = 0; j < rows; ++j) to[i * kKeyRows + j] = wide[j * kColumns + i];
      }
    }
  }
}

template <typename T>
class QueryBlock {
  using Number = Compute<T>;

 public:
  explicit QueryBlock(const AttentionProblem& problem)
      : problem_(problem),
        rows_(problem),
        // A factor that is not positive would turn the order of the scores.
        query_scale_(problem.scale > 0 ? 1 : static_cast<Number>(problem.scale)),
        score_scale_(problem.scale > 0 ? static_cast<Number>(problem.scale) : 1) {}

  int64_t block_count() const { return rows_.block_count(); }

  /// Whether any query of the block sees any of these keys.
  bool sees(int64_t block, KeyRange keys) const {
    const auto [first, last] = rows_.queries(block);
    // A query sees no key before those that the one before it sees.
    return visible_keys(problem_, first).begin < keys.end &&
           visible_keys(problem_, last).end > keys.begin;
  }

  void move_to(int64_t batch, int64_t key_head, int64_t block) {
    batch_ = batch;
    row_count_ = rows_.row_count(block);
    visible_ = {problem_.keys, 0};
    for (int64_t i = 0; i < row_count_; ++i) {
      const auto [head, query] = rows_.position(block, i);
      positions_[i] = {key_head * problem_.group() + head, query};
      seen_[i] = visible_keys(problem_, query);
      if (seen_[i].begin < seen_[i].end) {
        visible_.begin = std::min(visible_.begin, seen_[i].begin);
        visible_.end = std::max(visible_.end, seen_[i].end);
      }
    }
  }

  int64_t batch() const { return batch_; }
  int64_t row_count() const { return row_count_; }

  /// The head of queries and the query of row `i`.
  QueryRows::Position position(int64_t i) const { return positions_[i]; }

  /// Its place in what has a number for each query.
  int64_t flat_position(int64_t i) const {
    return (batch_ * problem_.heads + positions_[i].head) * problem_.queries + positions_[i].query;
  }

  /// All keys that any row sees.
  KeyRange visible() const { return visible_; }

  /// Those of the tile that starts at key `first`, relative to it, from a whole line on; empty if
  /// there is none.
  KeyRange visible_in_tile(int64_t first) const {
    const int64_t begin = std::max<int64_t>(visible_.begin - first, 0) / 16 * 16;
    return {begin, std::max(begin, std::min(visible_.end - first, kKeyRows))};
  }

  void load_rows(const AttentionOperand& x, int64_t columns, Number* wide) const {
    const int64_t step = padded(columns);
    for (int64_t i = 0; i < row_count_; ++i) {
      const auto [head, query] = positions_[i];
      widen_row(row_of<const T>(x, batch_, head, query), wide + i * step, columns, step);
    }
  }

  /// The rows of the queries, scaled as far as score_scale() leaves it.
  void load_queries(Number* wide) const {
    load_rows(problem_.query, problem_.dim, wide);
    if (query_scale_ != 1) multiply_row(wide, query_scale_, row_count_ * padded(problem_.dim));
  }

  /// What the products of these rows and of keys are multiplied by.
  Number score_scale() const { return score_scale_; }

  /// Masks the scores of row `i` in the tile from key `first` on, of which `made` were computed, up
  /// to whole vectors; returns what they are still to be multiplied by.
  Number mask_scores(int64_t i, int64_t first, KeyRange made, Number scale, Number* scores) const {
    const int64_t begin = std::clamp(seen_[i].begin - first, made.begin, made.end);
    const int64_t end = std::clamp(seen_[i].end - first, begin, made.end);
    std::fill(scores + made.begin, scores + begin, kMinusInfinity<Number>);
    std::fill(scores + end, scores + made.begin + padded(made.end - made.begin),
              kMinusInfinity<Number>);
    if (problem_.mask.kind == AttentionMask::kNone) return scale;
    const auto [head, query] = positions_[i];
    apply_mask<T>(problem_.mask, batch_, head, query, first + begin, scale, scores + begin,
                  end - begin);
    return 1;
  }

 private:
  const AttentionProblem& problem_;
  QueryRows rows_;
  Number query_scale_;
  Number score_scale_;
  int64_t batch_ = 0;
  int64_t row_count_ = 0;
  KeyRange visible_{};
  std::array<QueryRows::Position, kQueryRows> positions_;
  std::array<KeyRange, kQueryRows> seen_;
};

}  // namespace CPU_CAPABILITY
}  // namespace scramjet::ops
