#pragma once

#include "ops/loss/loss_arguments.h"
#include "ops/loss/loss_by_rows.h"

/// linear_cross_entropy on CPU and CUDA: ATen's matrix products for a part of the rows at a time,
/// whose logits a device's kernel turns into their losses and gradients in place (as Hsu et al.
/// 2024, "Liger Kernel", arXiv:2410.10989, section 3.2).
namespace scramjet::ops {

/// The gradients are those for a grad_output of 1.
LinearLossOutputs linear_loss_by_rows(const LinearLossArguments& call,
                                      const WantedGradients& wanted, RunLossRows* run);

LinearLossGradients linear_loss_backward_by_rows(const LinearLossArguments& call,
                                                 const at::Tensor& grad_output,
                                                 const at::Tensor& logsumexp,
                                                 const WantedGradients& wanted, RunLossRows* run);

}  // namespace scramjet::ops
