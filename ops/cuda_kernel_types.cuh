#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "ops/cuda_dtype.h"

namespace scramjet::ops {

/// The type that T computes in.
template <typename T>
struct ComputeType {
  using type = float;
};
template <>
struct ComputeType<double> {
  using type = double;
};

/// kPack elements that are loaded and stored at once.
template <typename T, int kPack>
struct alignas(sizeof(T) * kPack) Pack {
  T lanes[kPack];
};

template <typename T>
struct TypeTag {
  using type = T;
};

/// Calls `launch(TypeTag<T>())` with the type of `dtype`.
template <typename Launch>
void with_cuda_type(CudaDtype dtype, const Launch& launch) {
  switch (dtype) {
    case CudaDtype::kFloat:
      return launch(TypeTag<float>());
    case CudaDtype::kDouble:
      return launch(TypeTag<double>());
    case CudaDtype::kHalf:
      return launch(TypeTag<__half>());
    case CudaDtype::kBFloat16:
      return launch(TypeTag<__nv_bfloat16>());
  }
}

}  // namespace scramjet::ops
