#pragma once

#include "ops/cuda_dtype.h"
#include "ops/norm/norm_rows.h"

namespace scramjet::ops {

/// How the kernels are launched over `rows` > 0 rows of more than 0 columns.
struct NormLaunch {
  CudaDtype dtype = CudaDtype::kFloat;
  /// The parameters' dtype: the same, or kFloat for half and bfloat16.
  CudaDtype parameters = CudaDtype::kFloat;
  /// Whether the mean is taken off: layer_norm.
  bool centered = false;
  int64_t rows = 0;
  /// A cudaStream_t of the current device.
  void* stream = nullptr;
};

void launch_norm(const NormLaunch& launch, const NormRows& operands);

/// Room for what the gradients of the parameters need, in the type that the dtype computes in.
struct NormBackwardRoom {
  // Those of Moments (norm_moments.h), [rows] each.
  char* center = nullptr;
  char* rstd = nullptr;
  char* shift = nullptr;
  /// grad_weight and grad_bias are [splits, columns]: sums over a part of the rows each.
  int64_t splits = 1;
};

void launch_norm_backward(const NormLaunch& launch, const NormBackwardRows& operands,
                          const NormBackwardRoom& room);

}  // namespace scramjet::ops
