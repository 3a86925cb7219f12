#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <cmath>
#include <limits>
#include <optional>

#include "ops/argument_checks.h"
#include "ops/attention/attention_options.h"

/// One call of attention, and what every kernel checks before it computes.
namespace scramjet::ops {

/// The arguments of attention and of its backward; an undefined mask is one that is not there.
/// Refers to the caller's.
struct AttentionArguments {
  const char* op;
  const at::Tensor& query;
  const at::Tensor& key;
  const at::Tensor& value;
  const at::Tensor& mask;
  AttentionOptions options;
  // Of attention_varlen, whose operands are views with a batch of 1.
  std::optional<at::Tensor> query_starts = std::nullopt;
  std::optional<at::Tensor> key_starts = std::nullopt;

  bool is_varlen() const { return query_starts.has_value(); }

  /// The type that query's dtype computes in.
  at::ScalarType compute_dtype() const {
    return query.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  }

  double scale() const {
    if (options.scale) return *options.scale;
    return 1 / std::sqrt(static_cast<double>(query.size(3)));
  }

  /// More than any length, yet far from the end of the type.
  static constexpr int64_t kAll = std::numeric_limits<int64_t>::max() / 4;

  int64_t left() const { return options.window_left.value_or(kAll); }

  int64_t right() const {
    const int64_t right = options.window_right.value_or(kAll);
    return options.causal && right > 0 ? 0 : right;
  }
};

struct AttentionOutputs {
  at::Tensor output;
  at::Tensor logsumexp;
};

/// What the backward takes besides the arguments of the forward.
struct AttentionResults {
  const at::Tensor& grad_output;
  const at::Tensor& grad_logsumexp;  // Undefined where it is absent.
  const at::Tensor& output;
  const at::Tensor& logsumexp;
};

struct AttentionGradientOutputs {
  at::Tensor query;
  at::Tensor key;
  at::Tensor value;
};

inline const at::Tensor& no_attention_mask() {
  static const at::Tensor none;
  return none;
}

/// Errors of arguments that do not fit; for sizes that are symbols too. What the starts of
/// attention_varlen are is not looked at.
void check_attention(const AttentionArguments& call);
void check_attention_backward(const AttentionArguments& call, const AttentionResults& results);

/// ValueError unless the starts, on cpu, divide queries and keys into sequences.
void check_attention_starts(const AttentionArguments& call);

/// Those of a result of these sizes: dense, but for attention_varlen token by token.
c10::SymDimVector attention_strides(const AttentionArguments& call, c10::SymIntArrayRef sizes);

/// [batch, heads, queries, last].
c10::SymDimVector attention_output_sizes(const AttentionArguments& call);

/// [batch, heads, queries].
c10::SymDimVector attention_logsumexp_sizes(const AttentionArguments& call);

}  // namespace scramjet::ops
