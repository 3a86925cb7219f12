#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/autograd_conditions.h"
#include "ops/glu/glu.h"
#include "ops/glu/glu_arguments.h"

namespace scramjet::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;
using Gradients = std::tuple<at::Tensor, at::Tensor>;

enum class Activation : int64_t { kSilu, kGelu, kGeluTanh };

std::string_view approximate_of(Activation activation) {
  return activation == Activation::kGeluTanh ? "tanh" : "none";
}

Activation gelu_of(const char* op, std::string_view approximate) {
  return is_tanh(op, approximate) ? Activation::kGeluTanh : Activation::kGelu;
}

at::Tensor fused(Activation activation, const at::Tensor& gate, const at::Tensor& up) {
  at::AutoDispatchBelowADInplaceOrView guard;
  if (activation == Activation::kSilu) return ops::silu_mul(gate, up);
  return ops::gelu_mul(gate, up, approximate_of(activation));
}

Gradients fused_backward(Activation activation, const at::Tensor& grad_output,
                         const at::Tensor& gate, const at::Tensor& up) {
  at::AutoDispatchBelowADInplaceOrView guard;
  if (activation == Activation::kSilu) return ops::silu_mul_backward(grad_output, gate, up);
  return ops::gelu_mul_backward(grad_output, gate, up, approximate_of(activation));
}

at::Tensor aten_activation(Activation activation, const at::Tensor& x) {
  return activation == Activation::kSilu ? at::silu(x) : at::gelu(x, approximate_of(activation));
}

at::Tensor aten_activation_backward(Activation activation, const at::Tensor& grad,
                                    const at::Tensor& x) {
  if (activation != Activation::kSilu) {
    return at::gelu_backward(grad, x, approximate_of(activation));
  }
  // ATen has no derivative of silu_backward, so that of x sigmoid(x) is written out.
  const at::Tensor sigmoid = at::sigmoid(x);
  const at::Tensor x_term = x.mul(sigmoid.neg().add(1)).add(1);
  return grad.mul(sigmoid).mul(x_term);
}

Gradients differentiable_backward(Activation activation, const at::Tensor& grad_output,
                                  const at::Tensor& gate, const at::Tensor& up) {
  // With create_graph, or inside a transform, ATen's operators record what they need.
  if (needs_aten_formula(grad_output, gate, up) || needs_gradient(grad_output, gate, up)) {
    return {aten_activation_backward(activation, grad_output.mul(up), gate),
            grad_output.mul(aten_activation(activation, gate))};
  }
  return fused_backward(activation, grad_output, gate, up);
}

struct GatedFunction : Function<GatedFunction> {
  static constexpr bool is_traceable = true;

  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& gate, const at::Tensor& up,
                            Activation activation) {
    ctx->save_for_backward({gate, up});
    ctx->saved_data["activation"] = static_cast<int64_t>(activation);
    return fused(activation, gate, up);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto activation = static_cast<Activation>(ctx->saved_data["activation"].toInt());
    const variable_list saved = ctx->get_saved_variables();
    auto [grad_gate, grad_up] = differentiable_backward(activation, grads[0], saved[0], saved[1]);
    if (!ctx->needs_input_grad(0)) grad_gate.reset();
    if (!ctx->needs_input_grad(1)) grad_up.reset();
    return {grad_gate, grad_up, at::Tensor()};
  }
};

at::Tensor differentiable(const char* op, Activation activation, const at::Tensor& gate,
                          const at::Tensor& up) {
  if (needs_aten_formula(gate, up)) {
    check_glu(op, gate, up);
    return aten_activation(activation, gate).mul(up);
  }
  if (needs_gradient(gate, up)) return GatedFunction::apply(gate, up, activation);
  return fused(activation, gate, up);
}

at::Tensor silu_mul_autograd(const at::Tensor& gate, const at::Tensor& up) {
  return differentiable("scramjet::silu_mul", Activation::kSilu, gate, up);
}

at::Tensor gelu_mul_autograd(const at::Tensor& gate, const at::Tensor& up,
                             std::string_view approximate) {
  constexpr const char* kOp = "scramjet::gelu_mul";
  return differentiable(kOp, gelu_of(kOp, approximate), gate, up);
}

Gradients silu_mul_backward_autograd(const at::Tensor& grad_output, const at::Tensor& gate,
                                     const at::Tensor& up) {
  check_glu_backward("scramjet::silu_mul_backward", grad_output, gate, up);
  return differentiable_backward(Activation::kSilu, grad_output, gate, up);
}

Gradients gelu_mul_backward_autograd(const at::Tensor& grad_output, const at::Tensor& gate,
                                     const at::Tensor& up, std::string_view approximate) {
  constexpr const char* kOp = "scramjet::gelu_mul_backward";
  check_glu_backward(kOp, grad_output, gate, up);
  return differentiable_backward(gelu_of(kOp, approximate), grad_output, gate, up);
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, Autograd, m) {
  m.impl("silu_mul", silu_mul_autograd);
  m.impl("gelu_mul", gelu_mul_autograd);
  m.impl("silu_mul_backward", silu_mul_backward_autograd);
  m.impl("gelu_mul_backward", gelu_mul_backward_autograd);
}

}  // namespace scramjet::ops
