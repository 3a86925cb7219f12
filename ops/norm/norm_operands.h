#pragma once

#include "ops/matrix_rows.h"
#include "ops/norm/norm_arguments.h"
#include "ops/norm/norm_rows.h"

/// From the tensors of a call to what the kernels take, on CPU and CUDA.
namespace scramjet::ops {

/// Those of a norm; dense copies, where the kernels need them, live as long as this.
class NormOperands {
 public:
  /// `outputs`: contiguous.
  NormOperands(const NormArguments& call, const NormOutputs& outputs);

  const NormRows& rows() const { return rows_; }
  int64_t row_count() const { return row_count_; }

 private:
  int64_t row_count_;
  MatrixRows input_;
  MatrixRows residual_;
  at::Tensor weight_;
  at::Tensor bias_;
  NormRows rows_;
};

/// Those of a backward, but for the gradients of the parameters.
class NormBackwardOperands {
 public:
  /// `grad_input`: contiguous.
  NormBackwardOperands(const NormArguments& call, const at::Tensor& grad_output,
                       const at::Tensor& grad_sum, const at::Tensor& grad_input);

  const NormBackwardRows& rows() const { return rows_; }
  int64_t row_count() const { return row_count_; }

 private:
  int64_t row_count_;
  MatrixRows grad_output_;
  MatrixRows grad_sum_;
  MatrixRows input_;
  at::Tensor weight_;
  NormBackwardRows rows_;
};

/// The elements over which the mean goes.
int64_t norm_columns(const NormArguments& call);

/// The gradient of `parameter` from its sums over parts of the rows, [parts, columns]; undefined
/// sums, where there is no parameter, give a tensor of no elements.
at::Tensor parameter_gradient(const NormArguments& call, const at::Tensor& parameter,
                              const at::Tensor& sums);

}  // namespace scramjet::ops
