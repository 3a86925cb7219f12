#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/autograd_conditions.h"
#include "ops/softmax/aten_softmax.h"
#include "ops/softmax/softmax_call.h"
#include "ops/softmax/softmax_kernels.h"

namespace scramjet::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

at::Tensor fused(const SoftmaxArguments& call) {
  at::AutoDispatchBelowADInplaceOrView guard;
  return call_softmax(call);
}

at::Tensor softmax_backward_autograd(const SoftmaxArguments& call, const at::Tensor& grad_output) {
  // With create_graph, or inside a transform, ATen's operators record what they need.
  if (needs_aten_formula(grad_output, call.x) || needs_gradient(grad_output, call.x)) {
    return aten_softmax_backward(call, grad_output);
  }
  at::AutoDispatchBelowADInplaceOrView guard;
  return call_softmax_backward(call, grad_output);
}

struct SoftmaxFunction : Function<SoftmaxFunction> {
  static constexpr bool is_traceable = true;

  /// The tensors of `call` are given for autograd to see; as a plain Tensor it takes no undefined
  /// one. A mask that is added has input's shape.
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& /*input*/,
                            const std::optional<at::Tensor>& /*mask*/,
                            const SoftmaxArguments& call) {
    at::Tensor output = fused(call);
    ctx->save_for_backward({output, call.has_bool_mask() ? call.mask : at::Tensor()});
    ctx->saved_data["scale"] = call.scale;
    ctx->saved_data["causal"] = call.causal;
    if (call.has_added_mask()) ctx->saved_data["mask_dtype"] = call.mask.scalar_type();
    return output;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const double scale = ctx->saved_data["scale"].toDouble();
    const auto mask_dtype = ctx->saved_data.find("mask_dtype");
    const bool has_added_mask = mask_dtype != ctx->saved_data.end();
    const auto gradient = [&](double factor) {
      return softmax_backward_autograd({"scramjet::softmax_backward", "output", saved[0], saved[1],
                                        factor, ctx->saved_data["causal"].toBool()},
                                       grads[0]);
    };
    if (!has_added_mask || !ctx->needs_input_grad(1)) {
      return {ctx->needs_input_grad(0) ? gradient(scale) : at::Tensor(), {}, {}};
    }
    // The gradient of what was added is that of the scaled input.
    const at::Tensor of_scores = gradient(1);
    at::Tensor of_input;
    if (ctx->needs_input_grad(0)) of_input = scale == 1 ? of_scores : of_scores.mul(scale);
    return {of_input, of_scores.to(mask_dtype->second.toScalarType()), {}};
  }
};

at::Tensor softmax_autograd(const SoftmaxArguments& call) {
  if (needs_aten_formula(call.x, call.mask)) return aten_softmax(call);
  if (!needs_gradient(call.x, call.mask)) return fused(call);
  if (!call.mask.defined() || !call.mask.requires_grad()) {
    return SoftmaxFunction::apply(call.x, std::optional(call.mask), call);
  }
  check_softmax(call);
  // The node of expand sums the gradient up to the mask's shape.
  const at::Tensor mask = call.mask.expand_symint(call.x.sym_sizes());
  return SoftmaxFunction::apply(
      call.x, std::optional(mask),
      SoftmaxArguments{call.op, call.x_name, call.x, mask, call.scale, call.causal});
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, Autograd, m) {
  SoftmaxKernels<softmax_autograd, softmax_backward_autograd>::add_to(m);
}

}  // namespace scramjet::ops
