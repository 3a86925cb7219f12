#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/autograd_conditions.h"
#include "ops/norm/aten_norm.h"
#include "ops/norm/norm_call.h"
#include "ops/norm/norm_kernels.h"

namespace scramjet::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

NormOutputs fused(const NormArguments& call) {
  at::AutoDispatchBelowADInplaceOrView guard;
  return call_norm(call);
}

NormGradients norm_backward_autograd(const NormArguments& call, const at::Tensor& grad_output,
                                     const at::Tensor& grad_sum) {
  // With create_graph, or inside a transform, ATen's operators record what they need.
  if (needs_aten_formula(grad_output, grad_sum, call.input, call.weight, call.bias) ||
      needs_gradient(grad_output, grad_sum, call.input, call.weight, call.bias)) {
    return aten_norm_backward(call, grad_output, grad_sum);
  }
  at::AutoDispatchBelowADInplaceOrView guard;
  return call_norm_backward(call, grad_output, grad_sum);
}

struct NormFunction : Function<NormFunction> {
  static constexpr bool is_traceable = true;

  /// The tensors of `call` are given for autograd to see; as a plain Tensor it takes no undefined
  /// one.
  static variable_list forward(AutogradContext* ctx, const at::Tensor& /*input*/,
                               const std::optional<at::Tensor>& /*residual*/,
                               const std::optional<at::Tensor>& /*weight*/,
                               const std::optional<at::Tensor>& /*bias*/,
                               const NormArguments& call) {
    const NormOutputs outputs = fused(call);
    ctx->set_materialize_grads(false);
    // Of the bias the backward wants to know no more than whether there is one.
    ctx->save_for_backward(
        {outputs.sum.defined() ? outputs.sum : call.input, call.weight, call.bias});
    ctx->saved_data["norm"] = static_cast<int64_t>(call.norm);
    ctx->saved_data["dims"] = static_cast<int64_t>(call.normalized_shape.size());
    ctx->saved_data["eps"] = call.eps_value();
    if (!outputs.sum.defined()) return {outputs.output};
    return {outputs.output, outputs.sum};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const at::Tensor& grad_output = grads[0];
    const bool has_residual = grads.size() > 1;
    const at::Tensor& grad_sum = has_residual ? grads[1] : no_tensor();
    if (!grad_output.defined()) return {grad_sum, grad_sum, {}, {}, {}};
    const variable_list saved = ctx->get_saved_variables();
    const bool is_rms = ctx->saved_data["norm"].toInt() == static_cast<int64_t>(Norm::kRms);
    const int64_t dims = ctx->saved_data["dims"].toInt();
    const at::Tensor& x = saved[0];
    const NormGradients gradients = norm_backward_autograd(
        {is_rms ? "scramjet::rms_norm_backward" : "scramjet::layer_norm_backward",
         is_rms ? Norm::kRms : Norm::kLayer, x, no_tensor(), x.sym_sizes().slice(x.dim() - dims),
         saved[1], saved[2], ctx->saved_data["eps"].toDouble()},
        grad_output, grad_sum);
    size_t edge = 0;  // Arguments that are not there have none.
    const auto wanted = [&](bool is_there, const at::Tensor& gradient) {
      return is_there && ctx->needs_input_grad(edge++) ? gradient : at::Tensor();
    };
    return {wanted(true, gradients.input), wanted(has_residual, gradients.input),
            wanted(saved[1].defined(), gradients.weight),
            wanted(saved[2].defined(), gradients.bias), at::Tensor()};
  }
};

NormOutputs norm_autograd(const NormArguments& call) {
  if (needs_aten_formula(call.input, call.residual, call.weight, call.bias)) return aten_norm(call);
  if (!needs_gradient(call.input, call.residual, call.weight, call.bias)) return fused(call);
  const variable_list outputs =
      NormFunction::apply(call.input, std::optional(call.residual), std::optional(call.weight),
                          std::optional(call.bias), call);
  return {outputs[0], outputs.size() > 1 ? outputs[1] : at::Tensor()};
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, Autograd, m) {
  NormKernels<norm_autograd, norm_backward_autograd>::add_to(m);
}

}  // namespace scramjet::ops
