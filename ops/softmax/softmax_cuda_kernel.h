#pragma once

#include "ops/cuda_dtype.h"
#include "ops/softmax/softmax_rows.h"

namespace scramjet::ops {

/// How the kernels are launched over `rows` > 0 rows of more than 0 columns.
struct SoftmaxLaunch {
  CudaDtype dtype = CudaDtype::kFloat;
  /// kFloat only beside half and bfloat16; the backward has kBool or kNone.
  MaskKind mask = MaskKind::kNone;
  int64_t rows = 0;
  /// A cudaStream_t of the current device.
  void* stream = nullptr;
};

void launch_softmax(const SoftmaxLaunch& launch, const SoftmaxRows& operands);

void launch_softmax_backward(const SoftmaxLaunch& launch, const SoftmaxBackwardRows& operands);

}  // namespace scramjet::ops
