#pragma once

#include "ops/cuda_dtype.h"
#include "ops/rope/rope_rows.h"

namespace scramjet::ops {

/// How the kernel is launched over `rows` > 0 heads of more than 0 elements.
struct RopeLaunch {
  CudaDtype dtype = CudaDtype::kFloat;
  /// The tables' dtype: the same, or kFloat for half and bfloat16.
  CudaDtype tables = CudaDtype::kFloat;
  bool interleaved = false;
  int64_t rows = 0;
  /// A cudaStream_t of the current device.
  void* stream = nullptr;
};

/// A position that the tables have no row for stops the kernel with an error.
void launch_rope(const RopeLaunch& launch, const RopeRows& operands);

}  // namespace scramjet::ops
