#pragma once

#include <ATen/core/Tensor.h>

#include "ops/cuda_dtype.h"

/// What torch knows and a kernel is told: a `.cu` includes no torch header.
namespace scramjet::ops {

/// That of a supported floating dtype.
CudaDtype cuda_dtype(at::ScalarType dtype);

/// The cudaStream_t that torch uses on the current device.
void* current_cuda_stream();

}  // namespace scramjet::ops
