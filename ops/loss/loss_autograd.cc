#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/autograd_conditions.h"
#include "ops/loss/aten_loss.h"
#include "ops/loss/loss_call.h"
#include "ops/loss/loss_kernels.h"

namespace scramjet::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

void save(AutogradContext* ctx, const LossOptions& options) {
  ctx->saved_data["reduction"] = std::string(options.reduction);
  ctx->saved_data["ignore_index"] = options.ignore_index;
  ctx->saved_data["label_smoothing"] = options.label_smoothing;
  ctx->saved_data["z_loss"] = options.z_loss;
}

/// The reduction lives as long as `ctx`.
LossOptions saved_options(AutogradContext* ctx) {
  return {ctx->saved_data["reduction"].toStringView(),
          ctx->saved_data["ignore_index"].toInt(),
          ctx->saved_data["label_smoothing"].toDouble(),
          ctx->saved_data["z_loss"].toDouble(),
          {}};
}

at::Tensor loss_backward_autograd(const LossArguments& call, const at::Tensor& grad_output,
                                  const at::Tensor& logsumexp) {
  // With create_graph, or inside a transform, ATen's operators record what they need.
  if (needs_aten_formula(grad_output, call.logits) || needs_gradient(grad_output, call.logits)) {
    return aten_loss_backward(call, grad_output, logsumexp);
  }
  at::AutoDispatchBelowADInplaceOrView guard;
  return call_loss_backward(call, grad_output, logsumexp);
}

struct LossFunction : Function<LossFunction> {
  static constexpr bool is_traceable = true;

  /// The tensors of `call` are given for autograd to see.
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& /*logits*/,
                            const at::Tensor& /*target*/, const LossArguments& call) {
    at::AutoDispatchBelowADInplaceOrView guard;
    const LossOutputs outputs = call_loss_forward(call);
    ctx->set_materialize_grads(false);
    ctx->save_for_backward({call.logits, call.target, outputs.logsumexp});
    save(ctx, call.options);
    return outputs.loss;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    if (!grads[0].defined()) return {{}, {}, {}};
    const variable_list saved = ctx->get_saved_variables();
    return {loss_backward_autograd(
                {"scramjet::cross_entropy_backward", saved[0], saved[1], saved_options(ctx)},
                grads[0], saved[2]),
            {},
            {}};
  }
};

LossOutputs loss_autograd(const LossArguments& call) {
  if (needs_aten_formula(call.logits)) return aten_loss(call);
  if (needs_gradient(call.logits)) return {LossFunction::apply(call.logits, call.target, call), {}};
  at::AutoDispatchBelowADInplaceOrView guard;
  return {call_loss(call), {}};
}

/// `gradient` times the factor, in its own memory where nobody traces.
void scale(at::Tensor& gradient, const at::Tensor& factor) {
  if (at::isTensorSubclassLike(gradient) || at::isTensorSubclassLike(factor)) {
    gradient = gradient.mul(factor);
    return;
  }
  // A loss that is the last step has the gradient 1; asking a GPU would wait for it.
  if (factor.is_cpu() && factor.item<double>() == 1) return;
  gradient.mul_(factor);
}

LinearLossGradients linear_loss_backward_autograd(const LinearLossArguments& call,
                                                  const at::Tensor& grad_output,
                                                  const at::Tensor& logsumexp,
                                                  const WantedGradients& wanted) {
  if (needs_aten_formula(grad_output, call.input, call.weight, call.bias) ||
      needs_gradient(grad_output, call.input, call.weight, call.bias)) {
    return aten_linear_loss_backward(call, grad_output, logsumexp, wanted);
  }
  at::AutoDispatchBelowADInplaceOrView guard;
  return call_linear_loss_backward(call, grad_output, logsumexp, wanted);
}

struct LinearLossFunction : Function<LinearLossFunction> {
  static constexpr bool is_traceable = true;

  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& /*input*/,
                            const at::Tensor& /*weight*/, const at::Tensor& /*target*/,
                            const std::optional<at::Tensor>& /*bias*/,
                            const LinearLossArguments& call, const WantedGradients& wanted) {
    at::AutoDispatchBelowADInplaceOrView guard;
    const bool is_now = call.has_gradients_in_forward();
    const auto [losses, gradients] =
        call_linear_loss_forward(call, is_now ? wanted : WantedGradients());
    ctx->set_materialize_grads(false);
    ctx->save_for_backward({call.input, call.weight, call.target, losses.logsumexp, call.bias});
    save(ctx, call.options);
    // Not among the saved variables, since the backward gives their memory away.
    if (is_now) {
      ctx->saved_data["gradients"] =
          std::vector<at::Tensor>{gradients.input, gradients.weight, gradients.bias};
    }
    return losses.loss;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const at::Tensor& grad_output = grads[0];
    if (!grad_output.defined()) return {{}, {}, {}, {}, {}, {}};
    const variable_list saved = ctx->get_saved_variables();
    const bool has_bias = saved[4].defined();
    const WantedGradients wanted = {ctx->needs_input_grad(0), ctx->needs_input_grad(1),
                                    has_bias && ctx->needs_input_grad(3)};
    const LinearLossGradients gradients = take_or_compute(ctx, saved, grad_output, wanted);
    const auto given = [&](int k, const at::Tensor& gradient) {
      return wanted[k] ? gradient : at::Tensor();
    };
    return {given(0, gradients.input),
            given(1, gradients.weight),
            {},
            given(2, gradients.bias),
            {},
            {}};
  }

 private:
  static LinearLossGradients take_or_compute(AutogradContext* ctx, const variable_list& saved,
                                             const at::Tensor& grad_output,
                                             const WantedGradients& wanted) {
    const LinearLossArguments call = {"scramjet::linear_cross_entropy_backward",
                                      saved[0],
                                      saved[1],
                                      saved[2],
                                      saved[4],
                                      saved_options(ctx)};
    const bool is_plain = !at::GradMode::is_enabled() && !needs_aten_formula(grad_output);
    const auto found = ctx->saved_data.find("gradients");
    // A second backward over the same graph computes them.
    if (!is_plain || found == ctx->saved_data.end()) {
      return linear_loss_backward_autograd(call, grad_output, saved[3], wanted);
    }
    std::vector<at::Tensor> made = found->second.toTensorVector();
    ctx->saved_data.erase(found);
    for (size_t k = 0; k < made.size(); ++k) {
      if (wanted[k]) scale(made[k], grad_output);
    }
    return {made[0], made[1], made[2].to(call.input.scalar_type())};
  }
};

LinearLossOutputs linear_loss_autograd(const LinearLossArguments& call,
                                       const WantedGradients& wanted) {
  if (needs_aten_formula(call.input, call.weight, call.bias)) return aten_linear_loss(call, wanted);
  if (needs_gradient(call.input, call.weight, call.bias)) {
    const WantedGradients all = {call.input.requires_grad(), call.weight.requires_grad(),
                                 call.bias.requires_grad()};
    const at::Tensor loss = LinearLossFunction::apply(call.input, call.weight, call.target,
                                                      std::optional(call.bias), call, all);
    return {{loss, {}}, {}};
  }
  at::AutoDispatchBelowADInplaceOrView guard;
  return {{call_linear_loss(call), {}}, {}};
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, Autograd, m) {
  LossKernels<loss_autograd, loss_backward_autograd, linear_loss_autograd,
              linear_loss_backward_autograd>::add_differentiable_to(m);
  m.impl("cross_entropy_forward", torch::autograd::autogradNotImplementedFallback());
  m.impl("linear_cross_entropy_forward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace scramjet::ops
