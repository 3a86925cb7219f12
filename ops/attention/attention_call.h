#pragma once

#include "ops/attention/attention.h"
#include "ops/attention/attention_arguments.h"

/// From a kernel of one dispatch key to those below it.
namespace scramjet::ops {

inline std::optional<at::Tensor> present(const at::Tensor& x) {
  return x.defined() ? std::optional(x) : std::nullopt;
}

/// [tokens, heads, columns] of a view with a batch of 1.
inline at::Tensor tokens_of(const at::Tensor& x) { return x.squeeze(0).transpose(0, 1); }

inline at::Tensor batch_of_tokens(const at::Tensor& x) { return x.transpose(0, 1).unsqueeze(0); }

inline AttentionOutputs call_attention(const AttentionArguments& call) {
  if (call.is_varlen()) {
    auto [output, logsumexp] =
        ops::attention_varlen(tokens_of(call.query), tokens_of(call.key), tokens_of(call.value),
                              *call.query_starts, *call.key_starts, call.options);
    return {batch_of_tokens(output), logsumexp.unsqueeze(0)};
  }
  auto [output, logsumexp] =
      ops::attention(call.query, call.key, call.value, present(call.mask), call.options);
  return {output, logsumexp};
}

inline AttentionGradientOutputs call_attention_backward(const AttentionArguments& call,
                                                        const AttentionResults& results) {
  if (call.is_varlen()) {
    const at::Tensor& grad_logsumexp = results.grad_logsumexp;
    auto [query, key, value] = ops::attention_varlen_backward(
        tokens_of(results.grad_output),
        grad_logsumexp.defined() ? std::optional(grad_logsumexp.squeeze(0)) : std::nullopt,
        tokens_of(call.query), tokens_of(call.key), tokens_of(call.value), *call.query_starts,
        *call.key_starts, tokens_of(results.output), results.logsumexp.squeeze(0), call.options);
    return {batch_of_tokens(query), batch_of_tokens(key), batch_of_tokens(value)};
  }
  auto [query, key, value] = ops::attention_backward(
      results.grad_output, present(results.grad_logsumexp), call.query, call.key, call.value,
      present(call.mask), results.output, results.logsumexp, call.options);
  return {query, key, value};
}

}  // namespace scramjet::ops
