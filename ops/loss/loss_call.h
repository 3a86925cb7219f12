#pragma once

#include "ops/loss/loss.h"
#include "ops/loss/loss_arguments.h"

/// From a kernel of one dispatch key to those below it.
namespace scramjet::ops {

inline at::Tensor call_loss(const LossArguments& call) {
  const auto& [reduction, ignore_index, label_smoothing, z_loss, dtype] = call.options;
  return ops::cross_entropy(call.logits, call.target, reduction, ignore_index, label_smoothing,
                            z_loss, dtype);
}

inline at::Tensor call_linear_loss(const LinearLossArguments& call) {
  const auto& [reduction, ignore_index, label_smoothing, z_loss, dtype] = call.options;
  return ops::linear_cross_entropy(call.input, call.weight, call.target, call.bias, reduction,
                                   ignore_index, label_smoothing, z_loss, dtype);
}

/// Autograd's kernels stand above this one, and below the operators that users call.
inline LossOutputs call_loss_forward(const LossArguments& call) {
  const auto& [reduction, ignore_index, label_smoothing, z_loss, dtype] = call.options;
  auto [loss, logsumexp] = ops::cross_entropy_forward(call.logits, call.target, reduction,
                                                      ignore_index, label_smoothing, z_loss, dtype);
  return {loss, logsumexp};
}

inline at::Tensor call_loss_backward(const LossArguments& call, const at::Tensor& grad_output,
                                     const at::Tensor& logsumexp) {
  const auto& [reduction, ignore_index, label_smoothing, z_loss, dtype] = call.options;
  return ops::cross_entropy_backward(grad_output, call.logits, call.target, logsumexp, reduction,
                                     ignore_index, label_smoothing, z_loss);
}

inline LinearLossOutputs call_linear_loss_forward(const LinearLossArguments& call,
                                                  const WantedGradients& wanted) {
  const auto& [reduction, ignore_index, label_smoothing, z_loss, dtype] = call.options;
  auto [loss, logsumexp, grad_input, grad_weight, grad_bias] =
      ops::linear_cross_entropy_forward(call.input, call.weight, call.target, call.bias, reduction,
                                        ignore_index, label_smoothing, z_loss, dtype, wanted);
  return {{loss, logsumexp}, {grad_input, grad_weight, grad_bias}};
}

inline LinearLossGradients call_linear_loss_backward(const LinearLossArguments& call,
                                                     const at::Tensor& grad_output,
                                                     const at::Tensor& logsumexp,
                                                     const WantedGradients& wanted) {
  const auto& [reduction, ignore_index, label_smoothing, z_loss, dtype] = call.options;
  auto [grad_input, grad_weight, grad_bias] = ops::linear_cross_entropy_backward(
      grad_output, call.input, call.weight, call.target, logsumexp, call.bias, reduction,
      ignore_index, label_smoothing, z_loss, wanted);
  return {grad_input, grad_weight, grad_bias};
}

}  // namespace scramjet::ops
