#pragma once

#include "ops/norm/norm.h"
#include "ops/norm/norm_arguments.h"

/// From a kernel of one dispatch key to those below it.
namespace scramjet::ops {

/// Calls the operator that `call` is a call of.
inline NormOutputs call_norm(const NormArguments& call) {
  const auto& [op, norm, input, residual, shape, weight, bias, eps] = call;
  if (norm == Norm::kRms) {
    if (!residual.defined()) return {ops::rms_norm(input, shape, weight, eps), {}};
    auto [output, sum] = ops::add_rms_norm(input, residual, shape, weight, eps);
    return {output, sum};
  }
  if (!residual.defined()) return {ops::layer_norm(input, shape, weight, bias, *eps), {}};
  auto [output, sum] = ops::add_layer_norm(input, residual, shape, weight, bias, *eps);
  return {output, sum};
}

inline NormGradients call_norm_backward(const NormArguments& call, const at::Tensor& grad_output,
                                        const at::Tensor& grad_sum) {
  const auto& [op, norm, input, residual, shape, weight, bias, eps] = call;
  if (norm == Norm::kRms) {
    auto [grad_input, grad_weight] =
        ops::rms_norm_backward(grad_output, grad_sum, input, shape, weight, eps);
    return {grad_input, grad_weight, {}};
  }
  auto [grad_input, grad_weight, grad_bias] =
      ops::layer_norm_backward(grad_output, grad_sum, input, shape, weight, bias, *eps);
  return {grad_input, grad_weight, grad_bias};
}

}  // namespace scramjet::ops
