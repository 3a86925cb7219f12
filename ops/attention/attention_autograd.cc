#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/attention/aten_attention.h"
#include "ops/attention/attention_call.h"
#include "ops/attention/attention_kernels.h"
#include "ops/autograd_conditions.h"

namespace scramjet::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

AttentionOutputs fused(const AttentionArguments& call) {
  at::AutoDispatchBelowADInplaceOrView guard;
  return call_attention(call);
}

AttentionGradientOutputs attention_backward_autograd(const AttentionArguments& call,
                                                     const AttentionResults& results) {
  // With create_graph, or inside a transform, ATen's operators record what they need.
  const auto& [grad_output, grad_logsumexp, output, logsumexp] = results;
  if (needs_aten_formula(grad_output, grad_logsumexp, call.query, call.key, call.value, call.mask,
                         output, logsumexp) ||
      needs_gradient(grad_output, grad_logsumexp, call.query, call.key, call.value, call.mask,
                     output, logsumexp)) {
    return aten_attention_backward(call, results);
  }
  at::AutoDispatchBelowADInplaceOrView guard;
  return call_attention_backward(call, results);
}

struct AttentionFunction : Function<AttentionFunction> {
  static constexpr bool is_traceable = true;

  /// The tensors of `call` that have gradients are given for autograd to see.
  static variable_list forward(AutogradContext* ctx, const at::Tensor& /*query*/,
                               const at::Tensor& /*key*/, const at::Tensor& /*value*/,
                               const AttentionArguments& call) {
    const AttentionOutputs outputs = fused(call);
    ctx->set_materialize_grads(false);
    ctx->save_for_backward({call.query, call.key, call.value, call.mask, outputs.output,
                            outputs.logsumexp, call.query_starts.value_or(at::Tensor()),
                            call.key_starts.value_or(at::Tensor())});
    ctx->saved_data["scale"] = call.options.scale;
    ctx->saved_data["causal"] = call.options.causal;
    ctx->saved_data["window_left"] = call.options.window_left;
    ctx->saved_data["window_right"] = call.options.window_right;
    return {outputs.output, outputs.logsumexp};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    if (!grads[0].defined() && !grads[1].defined()) return {{}, {}, {}, {}};
    const variable_list saved = ctx->get_saved_variables();
    const AttentionOptions options{ctx->saved_data["scale"].toOptional<double>(),
                                   ctx->saved_data["causal"].toBool(),
                                   ctx->saved_data["window_left"].toOptional<int64_t>(),
                                   ctx->saved_data["window_right"].toOptional<int64_t>()};
    const at::Tensor& output = saved[4];
    const at::Tensor grad_output = grads[0].defined() ? grads[0] : at::zeros_like(output);
    const AttentionGradientOutputs gradients =
        attention_backward_autograd({"scramjet::attention_backward", saved[0], saved[1], saved[2],
                                     saved[3], options, present(saved[6]), present(saved[7])},
                                    {grad_output, grads[1], output, saved[5]});
    const auto wanted = [&](size_t edge, const at::Tensor& gradient) {
      return ctx->needs_input_grad(edge) ? gradient : at::Tensor();
    };
    return {wanted(0, gradients.query), wanted(1, gradients.key), wanted(2, gradients.value), {}};
  }
};

AttentionOutputs attention_autograd(const AttentionArguments& call) {
  // The mask's gradient is as large as the matrix of scores.
  if (needs_aten_formula(call.query, call.key, call.value, call.mask) ||
      needs_gradient(call.mask)) {
    return aten_attention(call);
  }
  if (!needs_gradient(call.query, call.key, call.value)) return fused(call);
  const variable_list outputs = AttentionFunction::apply(call.query, call.key, call.value, call);
  return {outputs[0], outputs[1]};
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, Autograd, m) {
  AttentionKernels<attention_autograd, attention_backward_autograd>::add_to(m);
}

}  // namespace scramjet::ops
