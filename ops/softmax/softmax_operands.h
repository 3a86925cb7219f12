#pragma once

#include "ops/matrix_rows.h"
#include "ops/softmax/softmax_arguments.h"
#include "ops/softmax/softmax_rows.h"

/// From the tensors of a call to what the kernels take, on CPU and CUDA.
namespace scramjet::ops {

/// A mask as the rows of an input; the dense copy, where it needs one, lives as long as this.
class MaskOperand {
 public:
  /// The mask of `call`, which is broadcast without a copy unless its last dimension is.
  explicit MaskOperand(const SoftmaxArguments& call);

  const MaskRows& rows() const { return rows_; }

 private:
  at::Tensor owner_;
  MaskRows rows_;
};

/// Those of softmax. The input has elements.
class SoftmaxOperands {
 public:
  /// `output`: contiguous.
  SoftmaxOperands(const SoftmaxArguments& call, const at::Tensor& output);

  const SoftmaxRows& rows() const { return rows_; }
  int64_t row_count() const { return row_count_; }

 private:
  int64_t row_count_;
  MatrixRows input_;
  MaskOperand mask_;
  SoftmaxRows rows_;
};

/// Those of its backward.
class SoftmaxBackwardOperands {
 public:
  /// `grad_input`: contiguous.
  SoftmaxBackwardOperands(const SoftmaxArguments& call, const at::Tensor& grad_output,
                          const at::Tensor& grad_input);

  const SoftmaxBackwardRows& rows() const { return rows_; }
  int64_t row_count() const { return row_count_; }

 private:
  int64_t row_count_;
  MatrixRows grad_output_;
  MatrixRows output_;
  MaskOperand mask_;
  SoftmaxBackwardRows rows_;
};

MaskKind mask_kind(const SoftmaxArguments& call);

}  // namespace scramjet::ops
