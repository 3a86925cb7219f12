#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "ops/loss/loss_arguments.h"
#include "ops/loss/loss_kernels.h"

namespace scramjet::ops {
namespace {

LossOutputs empty_losses(const at::Tensor& target, const LossOptions& options,
                         at::ScalarType dtype) {
  const at::TensorOptions on_meta = target.options();
  return {options.is_reduced() ? at::empty({}, on_meta.dtype(dtype))
                               : at::empty_symint(target.sym_sizes(), on_meta.dtype(dtype)),
          at::empty_symint(target.sym_sizes(), on_meta.dtype(at::kDouble))};
}

LinearLossGradients empty_gradients(const LinearLossArguments& call,
                                    const WantedGradients& wanted) {
  const auto empty = [&](bool is_wanted, const at::Tensor& x) {
    return is_wanted && x.defined() ? at::empty_symint(x.sym_sizes(), x.options())
                                    : at::empty({0}, call.input.options());
  };
  return {empty(wanted[0], call.input), empty(wanted[1], call.weight), empty(wanted[2], call.bias)};
}

LossOutputs loss_meta(const LossArguments& call) {
  check_loss(call);
  return empty_losses(call.target, call.options, call.loss_dtype());
}

at::Tensor loss_backward_meta(const LossArguments& call, const at::Tensor& grad_output,
                              const at::Tensor& logsumexp) {
  check_loss(call);
  check_loss_gradient(call.op, call.options, grad_output, call.target, logsumexp);
  return at::empty_symint(call.logits.sym_sizes(), call.logits.options());
}

LinearLossOutputs linear_loss_meta(const LinearLossArguments& call, const WantedGradients& wanted) {
  check_linear_loss(call);
  LinearLossGradients gradients = empty_gradients(call, wanted);
  if (wanted[2]) gradients.bias = gradients.bias.to(compute_dtype(call.input.scalar_type()));
  return {empty_losses(call.target, call.options, call.loss_dtype()), gradients};
}

LinearLossGradients linear_loss_backward_meta(const LinearLossArguments& call,
                                              const at::Tensor& grad_output,
                                              const at::Tensor& logsumexp,
                                              const WantedGradients& wanted) {
  check_linear_loss(call);
  check_loss_gradient(call.op, call.options, grad_output, call.target, logsumexp);
  return empty_gradients(call, wanted);
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, Meta, m) {
  LossKernels<loss_meta, loss_backward_meta, linear_loss_meta, linear_loss_backward_meta>::add_to(
      m);
}

}  // namespace scramjet::ops
