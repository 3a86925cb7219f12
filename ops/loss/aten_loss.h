#pragma once

#include <ATen/core/Tensor.h>

#include "ops/loss/loss_arguments.h"

/// The losses by ATen's operators, which torch knows to differentiate and to map: what stands in
/// for the fused kernels for second derivatives, in forward mode and inside functorch's transforms.
namespace scramjet::ops {

LossOutputs aten_loss(const LossArguments& call);

/// The logsumexp is computed anew, since derivatives go through it.
at::Tensor aten_loss_backward(const LossArguments& call, const at::Tensor& grad_output,
                              const at::Tensor& logsumexp);

/// All logits are held. The gradients have no elements: the backward makes them.
LinearLossOutputs aten_linear_loss(const LinearLossArguments& call, const WantedGradients& wanted);

LinearLossGradients aten_linear_loss_backward(const LinearLossArguments& call,
                                              const at::Tensor& grad_output,
                                              const at::Tensor& logsumexp,
                                              const WantedGradients& wanted);

}  // namespace scramjet::ops
