#pragma once

#include "ops/rope/rope_arguments.h"
#include "ops/rope/rope_rows.h"

/// From the tensors of a call to what the kernels take, on CPU and CUDA.
namespace scramjet::ops {

/// Dense copies, where the kernels need them, live as long as this. The input has elements.
class RopeOperands {
 public:
  /// `output`: contiguous.
  RopeOperands(const RopeArguments& call, const at::Tensor& output);

  const RopeRows& rows() const { return rows_; }
  int64_t row_count() const { return row_count_; }

  /// Long and dense, or undefined.
  const at::Tensor& positions() const { return positions_; }

 private:
  int64_t row_count_;
  at::Tensor input_;
  at::Tensor cos_;
  at::Tensor sin_;
  at::Tensor positions_;
  RopeRows rows_;
};

}  // namespace scramjet::ops
