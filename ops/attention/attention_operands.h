#pragma once

#include "ops/attention/attention_arguments.h"
#include "ops/attention/attention_problem.h"

/// From the tensors of a call to what the kernels take, on CPU and CUDA.
namespace scramjet::ops {

/// `x` with dense rows: itself, or a copy.
at::Tensor with_dense_rows(const at::Tensor& x);

AttentionOperand attention_operand(const at::Tensor& x);

/// The operands of a forward; dense copies, where the kernels need them, live as long as this.
class AttentionOperands {
 public:
  /// `outputs`: with dense rows; logsumexp contiguous.
  AttentionOperands(const AttentionArguments& call, const AttentionOutputs& outputs);

  const AttentionProblem& problem() const { return problem_; }

 private:
  at::Tensor query_;
  at::Tensor key_;
  at::Tensor value_;
  at::Tensor mask_;
  at::Tensor query_starts_;
  at::Tensor key_starts_;
  AttentionProblem problem_;
};

/// Those of a backward.
class AttentionBackwardOperands {
 public:
  /// `gradients`: with dense rows; `delta`: room of logsumexp's shape, contiguous.
  AttentionBackwardOperands(const AttentionArguments& call, const AttentionResults& results,
                            const AttentionGradientOutputs& gradients, const at::Tensor& delta);

  const AttentionProblem& problem() const { return operands_.problem(); }
  const AttentionGradients& gradients() const { return gradients_; }

 private:
  AttentionOutputs outputs_;
  AttentionOperands operands_;
  at::Tensor grad_output_;
  at::Tensor grad_logsumexp_;
  AttentionGradients gradients_;
};

}  // namespace scramjet::ops
