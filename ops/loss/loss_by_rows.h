#pragma once

#include "ops/loss/loss_arguments.h"
#include "ops/loss/loss_rows.h"

/// The losses by a kernel that computes rows, on CPU and CUDA: from the tensors of a call to what
/// the kernel takes, and the reduction of what it gives.
namespace scramjet::ops {

/// Runs a device's kernel over `count` rows, for logits of `dtype`.
using RunLossRows = void(at::ScalarType dtype, const LossRows& rows, int64_t count);

LossOutputs loss_by_rows(const LossArguments& call, RunLossRows* run);

at::Tensor loss_backward_by_rows(const LossArguments& call, const at::Tensor& grad_output,
                                 const at::Tensor& logsumexp, RunLossRows* run);

/// The rest is for the linear layer's losses (linear_loss.h).

/// IndexError for a target on cpu that is neither a class nor ignored.
void check_classes(const char* op, const at::Tensor& target, const LossOptions& options,
                   int64_t classes);

/// How many rows are not ignored, in double.
at::Tensor row_count(const at::Tensor& target, const LossOptions& options);

/// The loss from that of each row, [N] in double.
at::Tensor reduce_losses(const at::Tensor& losses, const at::Tensor& target,
                         const LossOptions& options, at::ScalarType dtype);

/// The gradient of each row's loss, [N] in double.
at::Tensor row_gradients(const at::Tensor& grad_output, const at::Tensor& target,
                         const LossOptions& options);

/// Uninitialised and contiguous.
at::Tensor empty_output(at::IntArrayRef sizes, const at::TensorOptions& options);

/// The options and the columns, without an operand.
LossRows loss_rows_of(const LossOptions& options, int64_t columns);

}  // namespace scramjet::ops
