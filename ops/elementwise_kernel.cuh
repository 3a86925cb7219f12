#pragma once

#include <cstdint>
#include <limits>

#include "ops/cuda_kernel_types.cuh"
#include "ops/elementwise_launch.h"

/// Elementwise kernels from a device functor `Op` on float or double: `scalar
/// operator()(scalar...)`, or `Results<scalar, kOutputs> operator()(scalar...)`.
/// launch_elementwise<kInputs, kOutputs, Op> is all that an operator's `.cu` calls.
namespace scramjet::ops {

template <typename T, int kOutputs>
struct Results {
  T values[kOutputs];
};

template <typename T>
__device__ Results<T, 1> as_results(T value) {
  return {{value}};
}
template <typename T, int kOutputs>
__device__ Results<T, kOutputs> as_results(const Results<T, kOutputs>& results) {
  return results;
}

/// One element: from `inputs` to `outputs`.
template <typename T, int kInputs, int kOutputs, typename Op>
__device__ void apply(const T* inputs, T* outputs) {
  using Compute = typename ComputeType<T>::type;
  Compute x[kInputs];
#pragma unroll
  for (int k = 0; k < kInputs; ++k) x[k] = static_cast<Compute>(inputs[k]);
  Results<Compute, kOutputs> results;
  if constexpr (kInputs == 1) {
    results = as_results(Op()(x[0]));
  } else if constexpr (kInputs == 2) {
    results = as_results(Op()(x[0], x[1]));
  } else {
    static_assert(kInputs == 3);
    results = as_results(Op()(x[0], x[1], x[2]));
  }
#pragma unroll
  for (int k = 0; k < kOutputs; ++k) outputs[k] = static_cast<T>(results.values[k]);
}

/// Elements [kPack * i, kPack * (i + 1)) of contiguous operands.
template <typename T, int kInputs, int kOutputs, int kPack, typename Op>
__device__ void apply_pack(const ElementwiseLaunch& launch, int64_t i) {
  using Packed = Pack<T, kPack>;
  Packed in[kInputs];
  Packed out[kOutputs];
#pragma unroll
  for (int k = 0; k < kInputs; ++k) {
    in[k] = reinterpret_cast<const Packed*>(launch.data[kOutputs + k])[i];
  }
#pragma unroll
  for (int lane = 0; lane < kPack; ++lane) {
    T inputs[kInputs];
    T outputs[kOutputs];
#pragma unroll
    for (int k = 0; k < kInputs; ++k) inputs[k] = in[k].lanes[lane];
    apply<T, kInputs, kOutputs, Op>(inputs, outputs);
#pragma unroll
    for (int k = 0; k < kOutputs; ++k) out[k].lanes[lane] = outputs[k];
  }
#pragma unroll
  for (int k = 0; k < kOutputs; ++k) reinterpret_cast<Packed*>(launch.data[k])[i] = out[k];
}

template <typename T, int kInputs, int kOutputs, int kPack, typename Op>
__global__ void contiguous_kernel(ElementwiseLaunch launch) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t packs = launch.numel / kPack;
  for (int64_t i = thread; i < packs; i += threads) {
    apply_pack<T, kInputs, kOutputs, kPack, Op>(launch, i);
  }
  // Fewer than kPack are left.
  const int64_t last = packs * kPack + thread;
  if (last < launch.numel) apply_pack<T, kInputs, kOutputs, 1, Op>(launch, last);
}

/// Index: uint32_t where every element's number fits, since 64-bit division is slow.
template <typename T, int kInputs, int kOutputs, typename Index, typename Op>
__global__ void strided_kernel(ElementwiseLaunch launch) {
  constexpr int kOperands = kOutputs + kInputs;
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < launch.numel;
       i += threads) {
    int64_t offsets[kOperands] = {};
    Index rest = static_cast<Index>(i);
    for (int d = 0; d < launch.dims; ++d) {
      const Index size = static_cast<Index>(launch.sizes[d]);
      const int64_t place = rest % size;
      rest /= size;
#pragma unroll
      for (int k = 0; k < kOperands; ++k) offsets[k] += place * launch.strides[k][d];
    }
    T inputs[kInputs];
    T outputs[kOutputs];
#pragma unroll
    for (int k = 0; k < kInputs; ++k) {
      const int operand = kOutputs + k;
      inputs[k] = *reinterpret_cast<const T*>(launch.data[operand] + offsets[operand]);
    }
    apply<T, kInputs, kOutputs, Op>(inputs, outputs);
#pragma unroll
    for (int k = 0; k < kOutputs; ++k) {
      *reinterpret_cast<T*>(launch.data[k] + offsets[k]) = outputs[k];
    }
  }
}

inline bool is_aligned(const ElementwiseLaunch& launch, int operands, uintptr_t bytes) {
  for (int k = 0; k < operands; ++k) {
    if (reinterpret_cast<uintptr_t>(launch.data[k]) % bytes != 0) return false;
  }
  return true;
}

template <typename T, int kInputs, int kOutputs, typename Op>
void launch_typed(const ElementwiseLaunch& launch) {
  constexpr int kThreads = 256;
  constexpr int kPack = 16 / sizeof(T);
  constexpr int64_t kMaxBlocks = 1 << 20;  // The kernels loop over what is left.
  const auto stream = static_cast<cudaStream_t>(launch.stream);
  const bool packed = launch.contiguous && is_aligned(launch, kOutputs + kInputs, 16);
  const int64_t threads = packed ? (launch.numel + kPack - 1) / kPack : launch.numel;
  const int64_t needed = (threads + kThreads - 1) / kThreads;
  const auto blocks = static_cast<unsigned>(needed < kMaxBlocks ? needed : kMaxBlocks);
  if (packed) {
    contiguous_kernel<T, kInputs, kOutputs, kPack, Op><<<blocks, kThreads, 0, stream>>>(launch);
  } else if (launch.contiguous) {
    contiguous_kernel<T, kInputs, kOutputs, 1, Op><<<blocks, kThreads, 0, stream>>>(launch);
  } else if (launch.numel <= std::numeric_limits<uint32_t>::max()) {
    strided_kernel<T, kInputs, kOutputs, uint32_t, Op><<<blocks, kThreads, 0, stream>>>(launch);
  } else {
    strided_kernel<T, kInputs, kOutputs, uint64_t, Op><<<blocks, kThreads, 0, stream>>>(launch);
  }
}

/// Launches; the caller checks cudaGetLastError.
template <int kInputs, int kOutputs, typename Op>
void launch_elementwise(const ElementwiseLaunch& launch) {
  static_assert(kOutputs + kInputs <= ElementwiseLaunch::kMaxOperands);
  with_cuda_type(launch.dtype, [&](auto tag) {
    launch_typed<typename decltype(tag)::type, kInputs, kOutputs, Op>(launch);
  });
}

}  // namespace scramjet::ops
