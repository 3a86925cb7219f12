#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>

#include "ops/attention/attention_problem.h"
#include "ops/cpu_capability.h"

namespace scramjet::ops {

/// The kernels for one dtype. Memory that they are given is in elements of the type that the dtype
/// computes in; attention_tiles.h has the sizes.
struct AttentionCpuKernels {
  /// Packs tiles [begin, end), counted over batches, heads of keys and their tiles.
  void (*pack)(const AttentionProblem& problem, int64_t begin, int64_t end, char* packed);

  /// The blocks of query rows [begin, end), counted over batches, heads of keys and their blocks.
  /// `scratch`: of forward_scratch_size(problem).
  void (*forward)(const AttentionProblem& problem, int64_t begin, int64_t end, const char* packed,
                  char* scratch);
};

/// For few queries, is_decoding(problem).
struct AttentionDecodeCpuKernels {
  /// Units [begin, end), counted over batches, heads of keys and `splits` of their keys; each has
  /// decode_partial_size(problem) of `partial`. `scratch`: of decode_scratch_size(problem).
  void (*decode)(const AttentionProblem& problem, int64_t begin, int64_t end, int64_t splits,
                 char* partial, char* scratch);

  /// The results from all partial ones.
  void (*join)(const AttentionProblem& problem, int64_t splits, const char* partial, char* scratch);
};

struct AttentionBackwardCpuKernels {
  /// Fills in the delta of queries [begin, end), counted over batches and heads.
  void (*make_delta)(const AttentionProblem& problem, const AttentionGradients& gradients,
                     int64_t begin, int64_t end);

  /// One head of keys, counted over batches: each tile of them whose number divided by `parts`
  /// leaves `part`. Adds to `grad_queries`, [batch, heads, queries, padded(dim)]. `scratch`: of
  /// backward_scratch_size(problem).
  void (*backward)(const AttentionProblem& problem, const AttentionGradients& gradients,
                   int64_t key_head, int64_t part, int64_t parts, char* grad_queries,
                   char* scratch);

  /// Rounds the gradients of queries [begin, end), the sum of those of `parts`.
  void (*store_grad_queries)(const AttentionProblem& problem, const AttentionGradients& gradients,
                             int64_t begin, int64_t end, int64_t parts, char* grad_queries);
};

SCRAMJET_DECLARE_CPU_KERNEL(AttentionCpuKernels attention_kernels(c10::ScalarType dtype))
SCRAMJET_DECLARE_CPU_KERNEL(
    AttentionDecodeCpuKernels attention_decode_kernels(c10::ScalarType dtype))
SCRAMJET_DECLARE_CPU_KERNEL(
    AttentionBackwardCpuKernels attention_backward_kernels(c10::ScalarType dtype))

}  // namespace scramjet::ops
