#pragma once

#include <cstdint>

#include "ops/cuda_dtype.h"

/// The frontier between an operator's CUDA registration (torch, no kernels: C++ compiler) and its
/// kernels (no torch: nvcc). A `.cu` that includes ATen takes nvcc ten times as long.
namespace scramjet::ops {

/// One launch over `numel` > 0 elements: the results, then the inputs.
struct ElementwiseLaunch {
  static constexpr int kMaxOperands = 5;
  static constexpr int kMaxDims = 16;

  CudaDtype dtype = CudaDtype::kFloat;
  int64_t numel = 0;
  char* data[kMaxOperands] = {};
  /// Every operand stands contiguously, in the same order: sizes and strides don't matter.
  bool contiguous = true;
  /// Else: the dimensions, the fastest first; strides in bytes.
  int dims = 0;
  int64_t sizes[kMaxDims] = {};
  int64_t strides[kMaxOperands][kMaxDims] = {};
  /// A cudaStream_t of the current device.
  void* stream = nullptr;
};

}  // namespace scramjet::ops
