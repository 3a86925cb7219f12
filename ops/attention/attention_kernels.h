#pragma once

#include <torch/library.h>

#include "ops/attention/attention_arguments.h"

namespace scramjet::ops {

/// The kernels of one dispatch key, from a function for attention and one for its backward:
///
///     TORCH_LIBRARY_IMPL(scramjet, Meta, m) {
///       AttentionKernels<attention_meta, attention_backward_meta>::add_to(m);
///     }
template <AttentionOutputs kAttention(const AttentionArguments& call),
          AttentionGradientOutputs kBackward(const AttentionArguments& call,
                                             const AttentionResults& results)>
class AttentionKernels {
  using Optional = std::optional<at::Tensor>;

 public:
  static void add_to(torch::Library& m) {
    m.impl("attention", attention);
    m.impl("attention_backward", backward);
    m.impl("attention_varlen", varlen);
    m.impl("attention_varlen_backward", varlen_backward);
  }

 private:
  using Length = std::optional<int64_t>;

  /// Of tokens, [tokens, heads, last].
  static at::Tensor with_batch(const char* op, const char* argument, const at::Tensor& x) {
    TORCH_CHECK_VALUE(x.dim() == 3, op, ": argument '", argument, "' has shape ", x.sym_sizes(),
                      "; expected [tokens, heads, columns]");
    return x.transpose(0, 1).unsqueeze(0);
  }

  static at::Tensor without_batch(const at::Tensor& x) { return x.squeeze(0).transpose(0, 1); }

  static const at::Tensor& or_none(const Optional& x) { return x ? *x : no_attention_mask(); }

  static std::tuple<at::Tensor, at::Tensor> attention(const at::Tensor& query,
                                                      const at::Tensor& key,
                                                      const at::Tensor& value, const Optional& mask,
                                                      std::optional<double> scale, bool causal,
                                                      std::optional<int64_t> window_left,
                                                      std::optional<int64_t> window_right) {
    const AttentionOutputs outputs = kAttention({"scramjet::attention",
                                                 query,
                                                 key,
                                                 value,
                                                 or_none(mask),
                                                 {scale, causal, window_left, window_right}});
    return {outputs.output, outputs.logsumexp};
  }

  static std::tuple<at::Tensor, at::Tensor, at::Tensor> backward(
      const at::Tensor& grad_output, const Optional& grad_logsumexp, const at::Tensor& query,
      const at::Tensor& key, const at::Tensor& value, const Optional& mask,
      const at::Tensor& output, const at::Tensor& logsumexp, std::optional<double> scale,
      bool causal, std::optional<int64_t> window_left, std::optional<int64_t> window_right) {
    const AttentionGradientOutputs gradients =
        kBackward({"scramjet::attention_backward",
                   query,
                   key,
                   value,
                   or_none(mask),
                   {scale, causal, window_left, window_right}},
                  {grad_output, or_none(grad_logsumexp), output, logsumexp});
    return {gradients.query, gradients.key, gradients.value};
  }

  static std::tuple<at::Tensor, at::Tensor> varlen(const at::Tensor& query, const at::Tensor& key,
                                                   const at::Tensor& value,
                                                   const at::Tensor& query_starts,
                                                   const at::Tensor& key_starts,
                                                   std::optional<double> scale, bool causal,
                                                   Length window_left, Length window_right) {
    constexpr const char* kOp = "scramjet::attention_varlen";
    const AttentionOutputs outputs = kAttention({kOp,
                                                 with_batch(kOp, "query", query),
                                                 with_batch(kOp, "key", key),
                                                 with_batch(kOp, "value", value),
                                                 no_attention_mask(),
                                                 {scale, causal, window_left, window_right},
                                                 query_starts,
                                                 key_starts});
    return {without_batch(outputs.output), outputs.logsumexp.squeeze(0)};
  }

  static std::tuple<at::Tensor, at::Tensor, at::Tensor> varlen_backward(
      const at::Tensor& grad_output, const Optional& grad_logsumexp, const at::Tensor& query,
      const at::Tensor& key, const at::Tensor& value, const at::Tensor& query_starts,
      const at::Tensor& key_starts, const at::Tensor& output, const at::Tensor& logsumexp,
      std::optional<double> scale, bool causal, Length window_left, Length window_right) {
    constexpr const char* kOp = "scramjet::attention_varlen_backward";
    const at::Tensor grad_logs = grad_logsumexp ? grad_logsumexp->unsqueeze(0) : at::Tensor();
    const AttentionGradientOutputs gradients =
        kBackward({kOp,
                   with_batch(kOp, "query", query),
                   with_batch(kOp, "key", key),
                   with_batch(kOp, "value", value),
                   no_attention_mask(),
                   {scale, causal, window_left, window_right},
                   query_starts,
                   key_starts},
                  {with_batch(kOp, "grad_output", grad_output), grad_logs,
                   with_batch(kOp, "output", output), logsumexp.unsqueeze(0)});
    return {without_batch(gradients.query), without_batch(gradients.key),
            without_batch(gradients.value)};
  }
};

}  // namespace scramjet::ops
