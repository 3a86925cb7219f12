#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sigmoid_backward.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/autograd_conditions.h"
#include "ops/sigmoid/sigmoid.h"

namespace scramjet::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// d/dgrad_output and d/doutput of grad_output * (1 - output) * output: derivatives.yaml,
// sigmoid_backward.
struct SigmoidBackwardFunction : Function<SigmoidBackwardFunction> {
  static constexpr bool is_traceable = true;

  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& grad_output,
                            const at::Tensor& output) {
    at::AutoDispatchBelowADInplaceOrView guard;
    ctx->save_for_backward({grad_output, output});
    return ops::sigmoid_backward(grad_output, output);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor& grad_output = saved[0];
    const at::Tensor& output = saved[1];
    variable_list result(2);
    if (ctx->needs_input_grad(0)) result[0] = ops::sigmoid_backward(grads[0], output);
    if (ctx->needs_input_grad(1)) {
      result[1] = grads[0].mul(grad_output).mul(output.mul(-2).add(1));
    }
    return result;
  }
};

struct SigmoidFunction : Function<SigmoidFunction> {
  static constexpr bool is_traceable = true;

  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x) {
    at::AutoDispatchBelowADInplaceOrView guard;
    at::Tensor output = ops::sigmoid(x);
    ctx->save_for_backward({output});
    return output;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    return {ops::sigmoid_backward(grads[0], ctx->get_saved_variables()[0])};
  }
};

at::Tensor sigmoid_autograd(const at::Tensor& x) {
  if (needs_aten_formula(x)) return at::sigmoid(x);
  if (needs_gradient(x)) return SigmoidFunction::apply(x);
  at::AutoDispatchBelowADInplaceOrView guard;
  return ops::sigmoid(x);
}

at::Tensor sigmoid_backward_autograd(const at::Tensor& grad_output, const at::Tensor& output) {
  if (needs_aten_formula(grad_output, output)) return at::sigmoid_backward(grad_output, output);
  if (needs_gradient(grad_output, output)) {
    return SigmoidBackwardFunction::apply(grad_output, output);
  }
  at::AutoDispatchBelowADInplaceOrView guard;
  return ops::sigmoid_backward(grad_output, output);
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, Autograd, m) {
  m.impl("sigmoid", sigmoid_autograd);
  m.impl("sigmoid_backward", sigmoid_backward_autograd);
}

}  // namespace scramjet::ops
