#pragma once

#include <cstdint>

/// What the kernels of attention are told, on CPU and CUDA: pointers and sizes.
namespace scramjet::ops {

/// [batch, head, row, element], by the steps between batches, heads and rows, in elements; a row is
/// dense.
struct AttentionOperand {
  char* data = nullptr;
  int64_t batch_step = 0;
  int64_t head_step = 0;
  int64_t row_step = 0;
};

/// What is added to the scores, or for kBool which of them take part.
struct AttentionMask {
  enum Kind { kNone, kBool, kOwn, kFloat };  // kOwn: of the query's dtype.

  Kind kind = kNone;
  const char* data = nullptr;
  int64_t batch_step = 0;
  int64_t head_step = 0;
  int64_t query_step = 0;
  int64_t key_step = 0;
};

struct AttentionProblem {
  int64_t batch = 0;
  int64_t heads = 0;
  int64_t key_heads = 0;  // Divides `heads`.
  int64_t queries = 0;
  int64_t keys = 0;
  int64_t dim = 0;
  int64_t value_dim = 0;
  double scale = 0;
  // Query i sees the keys from i + keys - queries - left to i + keys - queries + right.
  int64_t left = 0;
  int64_t right = 0;
  // Where queries and keys are those of several sequences one after the other: the first of each,
  // and their end. A query sees keys of its own sequence, and the last one stands at its last key.
  int64_t sequences = 0;
  const int64_t* query_starts = nullptr;  // [sequences + 1]
  const int64_t* key_starts = nullptr;
  AttentionOperand query;
  AttentionOperand key;
  AttentionOperand value;
  AttentionMask mask;
  AttentionOperand output;
  char* logsumexp = nullptr;  // [batch, heads, queries], in the type that is computed in.

  constexpr int64_t group() const { return heads / key_heads; }
};

/// The operands of the backward besides those of the forward.
struct AttentionGradients {
  AttentionOperand grad_output;
  const char* grad_logsumexp = nullptr;  // As logsumexp, or absent.
  char* delta = nullptr;                 // As logsumexp: sum(grad_output * output) less the former.
  AttentionOperand grad_query;
  AttentionOperand grad_key;
  AttentionOperand grad_value;
};

}  // namespace scramjet::ops
