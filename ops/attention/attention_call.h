#pragma once

#include "ops/attention/attention.h"
#include "ops/attention/attention_arguments.h"

/// From a kernel of one dispatch key to those below it.
namespace scramjet::ops {

inline std::optional<at::Tensor> present(const at::Tensor& x) {
  return x.defined() ? std::optional(x) : std::nullopt;
}

inline AttentionOutputs call_attention(const AttentionArguments& call) {
  auto [output, logsumexp] =
      ops::attention(call.query, call.key, call.value, present(call.mask), call.options);
  return {output, logsumexp};
}

inline AttentionGradientOutputs call_attention_backward(const AttentionArguments& call,
                                                        const AttentionResults& results) {
  auto [query, key, value] = ops::attention_backward(
      results.grad_output, present(results.grad_logsumexp), call.query, call.key, call.value,
      present(call.mask), results.output, results.logsumexp, call.options);
  return {query, key, value};
}

}  // namespace scramjet::ops
