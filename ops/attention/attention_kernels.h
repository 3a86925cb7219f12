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
  }

 private:
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
};

}  // namespace scramjet::ops
