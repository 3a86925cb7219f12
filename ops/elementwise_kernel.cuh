#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <limits>

#include "ops/elementwise_launch.h"

/// Elementwise kernels from a device functor `Op`: `scalar operator()(scalar...)` on float or
/// double. launch_elementwise<kInputs, Op> is all that an operator's `.cu` calls.
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

template <typename T, int kInputs, typename Op>
__device__ T apply(const T* inputs) {
  using Compute = typename ComputeType<T>::type;
  if constexpr (kInputs == 1) {
    return static_cast<T>(Op()(static_cast<Compute>(inputs[0])));
  } else {
    return static_cast<T>(Op()(static_cast<Compute>(inputs[0]), static_cast<Compute>(inputs[1])));
  }
}

/// kPack elements that are loaded and stored at once.
template <typename T, int kPack>
struct alignas(sizeof(T) * kPack) Pack {
  T lanes[kPack];
};

template <typename T, int kInputs, int kPack, typename Op>
__global__ void contiguous_kernel(ElementwiseLaunch launch) {
  using Packed = Pack<T, kPack>;
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t packs = launch.numel / kPack;
  for (int64_t i = thread; i < packs; i += threads) {
    Packed in[kInputs];
#pragma unroll
    for (int k = 0; k < kInputs; ++k)
      in[k] = reinterpret_cast<const Packed*>(launch.data[k + 1])[i];
    Packed out;
#pragma unroll
    for (int lane = 0; lane < kPack; ++lane) {
      T inputs[kInputs];
#pragma unroll
      for (int k = 0; k < kInputs; ++k) inputs[k] = in[k].lanes[lane];
      out.lanes[lane] = apply<T, kInputs, Op>(inputs);
    }
    reinterpret_cast<Packed*>(launch.data[0])[i] = out;
  }
  // Fewer than kPack are left.
  const int64_t last = packs * kPack + thread;
  if (last < launch.numel) {
    T inputs[kInputs];
#pragma unroll
    for (int k = 0; k < kInputs; ++k)
      inputs[k] = reinterpret_cast<const T*>(launch.data[k + 1])[last];
    reinterpret_cast<T*>(launch.data[0])[last] = apply<T, kInputs, Op>(inputs);
  }
}

/// Index: uint32_t where every element's number fits, since 64-bit division is slow.
template <typename T, int kInputs, typename Index, typename Op>
__global__ void strided_kernel(ElementwiseLaunch launch) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < launch.numel;
       i += threads) {
    int64_t offsets[kInputs + 1] = {};
    Index rest = static_cast<Index>(i);
    for (int d = 0; d < launch.dims; ++d) {
      const Index size = static_cast<Index>(launch.sizes[d]);
      const int64_t place = rest % size;
      rest /= size;
#pragma unroll
      for (int k = 0; k <= kInputs; ++k) offsets[k] += place * launch.strides[k][d];
    }
    T inputs[kInputs];
#pragma unroll
    for (int k = 0; k < kInputs; ++k) {
      inputs[k] = *reinterpret_cast<const T*>(launch.data[k + 1] + offsets[k + 1]);
    }
    *reinterpret_cast<T*>(launch.data[0] + offsets[0]) = apply<T, kInputs, Op>(inputs);
  }
}

inline bool is_aligned(const ElementwiseLaunch& launch, int operands, uintptr_t bytes) {
  for (int k = 0; k < operands; ++k) {
    if (reinterpret_cast<uintptr_t>(launch.data[k]) % bytes != 0) return false;
  }
  return true;
}

template <typename T, int kInputs, typename Op>
void launch_typed(const ElementwiseLaunch& launch) {
  constexpr int kThreads = 256;
  constexpr int kPack = 16 / sizeof(T);
  constexpr int64_t kMaxBlocks = 1 << 20;  // The kernels loop over what is left.
  const auto stream = static_cast<cudaStream_t>(launch.stream);
  const bool packed = launch.contiguous && is_aligned(launch, kInputs + 1, 16);
  const int64_t threads = packed ? (launch.numel + kPack - 1) / kPack : launch.numel;
  const int64_t needed = (threads + kThreads - 1) / kThreads;
  const auto blocks = static_cast<unsigned>(needed < kMaxBlocks ? needed : kMaxBlocks);
  if (packed) {
    contiguous_kernel<T, kInputs, kPack, Op><<<blocks, kThreads, 0, stream>>>(launch);
  } else if (launch.contiguous) {
    contiguous_kernel<T, kInputs, 1, Op><<<blocks, kThreads, 0, stream>>>(launch);
  } else if (launch.numel <= std::numeric_limits<uint32_t>::max()) {
    strided_kernel<T, kInputs, uint32_t, Op><<<blocks, kThreads, 0, stream>>>(launch);
  } else {
    strided_kernel<T, kInputs, uint64_t, Op><<<blocks, kThreads, 0, stream>>>(launch);
  }
}

/// Launches; the caller checks cudaGetLastError.
template <int kInputs, typename Op>
void launch_elementwise(const ElementwiseLaunch& launch) {
  static_assert(kInputs < ElementwiseLaunch::kMaxOperands);
  switch (launch.dtype) {
    case CudaDtype::kFloat:
      return launch_typed<float, kInputs, Op>(launch);
    case CudaDtype::kDouble:
      return launch_typed<double, kInputs, Op>(launch);
    case CudaDtype::kHalf:
      return launch_typed<__half, kInputs, Op>(launch);
    case CudaDtype::kBFloat16:
      return launch_typed<__nv_bfloat16, kInputs, Op>(launch);
  }
}

}  // namespace scramjet::ops
