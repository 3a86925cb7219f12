#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ops/attention/attention_problem.h"

/// Into what pieces the CPU kernels cut an attention.
namespace scramjet::ops {

/// Scores are made kQueryRows x kKeyRows at a time: they and what they are made of stay in the
/// second-level cache.
constexpr int64_t kQueryRows = 48;
constexpr int64_t kKeyRows = 256;

/// Rows that are read as whole vectors have so many elements.
constexpr int64_t padded(int64_t elements) { return (elements + 15) / 16 * 16; }

constexpr int64_t tiles_of(int64_t rows, int64_t tile) { return (rows + tile - 1) / tile; }

/// The elements of one head's keys and values as the kernels read them: for each tile the keys
/// transposed, [dim, kKeyRows], then the values, [kKeyRows, padded(value_dim)].
constexpr int64_t packed_tile_size(const AttentionProblem& problem) {
  return kKeyRows * (problem.dim + padded(problem.value_dim));
}

constexpr int64_t packed_head_size(const AttentionProblem& problem) {
  return tiles_of(problem.keys, kKeyRows) * packed_tile_size(problem);
}

/// The elements of memory that a thread of the forward works in.
constexpr int64_t forward_scratch_size(const AttentionProblem& problem) {
  return kQueryRows * (padded(problem.dim) + kKeyRows + padded(problem.value_dim));
}

/// Whether there are so few queries for each head of keys that packing the keys does not pay.
constexpr bool is_decoding(const AttentionProblem& problem) {
  constexpr int64_t kFewRows = 16;
  return problem.sequences == 0 && problem.queries * problem.group() <= kFewRows;
}

constexpr int64_t decode_scratch_size(const AttentionProblem& problem) {
  return forward_scratch_size(problem) + kKeyRows * padded(problem.value_dim);
}

/// A query's largest score, the sum of its weights and that of its weighted values.
constexpr int64_t decode_row_size(const AttentionProblem& problem) {
  return 2 + padded(problem.value_dim);
}

/// The rows of some keys of one head.
constexpr int64_t decode_partial_size(const AttentionProblem& problem) {
  return problem.queries * problem.group() * decode_row_size(problem);
}

/// The elements of memory that a thread of the backward works in.
constexpr int64_t backward_scratch_size(const AttentionProblem& problem) {
  const int64_t dim = padded(problem.dim);
  const int64_t value_dim = padded(problem.value_dim);
  return kKeyRows * (3 * dim + 2 * value_dim) + kQueryRows * (dim + value_dim + 2 * kKeyRows);
}

/// The rows of queries that share a head's keys, in blocks of one head and one sequence. Where a
/// head has few queries, those of all heads of the group follow each other, so that blocks are
/// full.
class QueryRows {
 public:
  explicit QueryRows(const AttentionProblem& problem)
      : queries_(problem.queries), group_(problem.group()) {
    if (problem.sequences > 0) {
      for (int64_t i = 0; i < problem.sequences; ++i) {
        add_blocks(problem.query_starts[i], problem.query_starts[i + 1]);
      }
    } else {
      if (queries_ < kQueryRows) folded_heads_ = group_;
      add_blocks(0, folded_heads_ * queries_);
    }
  }

  /// Of one head of keys.
  int64_t block_count() const {
    return group_ / folded_heads_ * static_cast<int64_t>(blocks_.size());
  }

  int64_t row_count(int64_t block) const {
    const auto& [begin, end] = rows_of(block);
    return end - begin;
  }

  struct Queries {
    int64_t first;
    int64_t last;
  };

  /// Those of a block, whatever their heads.
  Queries queries(int64_t block) const {
    const auto& [begin, end] = rows_of(block);
    const bool is_one_head = begin / queries_ == (end - 1) / queries_;
    return is_one_head ? Queries{begin % queries_, (end - 1) % queries_} : Queries{0, queries_ - 1};
  }

  struct Position {
    int64_t head;   // In the group.
    int64_t query;  // In the head.
  };

  Position position(int64_t block, int64_t row) const {
    const int64_t i = rows_of(block).begin + row;
    return {block / static_cast<int64_t>(blocks_.size()) * folded_heads_ + i / queries_,
            i % queries_};
  }

 private:
  struct Block {
    int64_t begin;
    int64_t end;
  };

  /// From both ends in turn: under a causal mask the first are cheap, the last dear, and threads
  /// take runs of blocks.
  void add_blocks(int64_t begin, int64_t end) {
    const int64_t count = tiles_of(end - begin, kQueryRows);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t first = begin + (i % 2 == 0 ? i / 2 : count - 1 - i / 2) * kQueryRows;
      blocks_.push_back({first, std::min(first + kQueryRows, end)});
    }
  }

  const Block& rows_of(int64_t block) const {
    return blocks_[block % static_cast<int64_t>(blocks_.size())];
  }

  int64_t queries_;
  int64_t group_;
  int64_t folded_heads_ = 1;
  std::vector<Block> blocks_;  // Of the folded heads.
};

/// Some keys of a row: [begin, end).
struct KeyRange {
  int64_t begin;
  int64_t end;
};

/// Those that query `i` sees.
inline KeyRange visible_keys(const AttentionProblem& problem, int64_t i) {
  KeyRange own{0, problem.keys};
  int64_t last = problem.queries;
  if (problem.sequences > 0) {
    const int64_t* const starts = problem.query_starts;
    const int64_t sequence = std::upper_bound(starts, starts + problem.sequences, i) - starts - 1;
    own = {problem.key_starts[sequence], problem.key_starts[sequence + 1]};
    last = starts[sequence + 1];
  }
  const int64_t diagonal = i + own.end - last;
  return {std::clamp(diagonal - problem.left, own.begin, own.end),
          std::clamp(diagonal + problem.right + 1, own.begin, own.end)};
}

}  // namespace scramjet::ops
