#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "ops/cuda_kernel_types.cuh"

/// For kernels whose rows belong to a warp each or, where they are long, to a block: blockDim.x
/// threads walk a row by packs, blockDim.y rows at once. A row comes from memory once and from the
/// cache again.
///
///     for_own_rows(rows, [&](int64_t row) {
///       Number sums[1] = {};
///       for_own_packs<kPack>(columns, [&](int64_t i) { ... });
///       sum_over_row(sums);
///     });
namespace scramjet::ops {

constexpr int kWarp = 32;
constexpr int kMaxRowThreads = 512;

/// Combines `x` over the threads of a row, in each of them: a warp's if blockDim.x is kWarp, else
/// the block's.
template <typename Number, int kCount, typename Combine>
__device__ void combine_over_row(Number (&x)[kCount], const Combine& combine) {
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
#pragma unroll
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      x[k] = combine(x[k], __shfl_xor_sync(0xffffffffU, x[k], distance));
    }
  }
  if (blockDim.x == kWarp) return;
  __shared__ Number of_warp[kCount][kMaxRowThreads / kWarp];
  const int warps = blockDim.x / kWarp;
  __syncthreads();  // Whoever still reads the values before these.
  if (threadIdx.x % kWarp == 0) {
    for (int k = 0; k < kCount; ++k) of_warp[k][threadIdx.x / kWarp] = x[k];
  }
  __syncthreads();
  for (int k = 0; k < kCount; ++k) {
    x[k] = of_warp[k][0];
    for (int warp = 1; warp < warps; ++warp) x[k] = combine(x[k], of_warp[k][warp]);
  }
}

template <typename Number, int kSums>
__device__ void sum_over_row(Number (&sums)[kSums]) {
  combine_over_row(sums, [](Number a, Number b) { return a + b; });
}

/// kPack elements from column i on, widened.
template <int kPack, typename Number, typename T>
__device__ void load_pack(const T* row, int64_t i, Number (&x)[kPack]) {
  const auto packed = *reinterpret_cast<const Pack<T, kPack>*>(row + i);
#pragma unroll
  for (int lane = 0; lane < kPack; ++lane) x[lane] = static_cast<Number>(packed.lanes[lane]);
}

template <int kPack, typename Number, typename T>
__device__ void store_pack(const Number (&x)[kPack], T* row, int64_t i) {
  Pack<T, kPack> packed;
#pragma unroll
  for (int lane = 0; lane < kPack; ++lane) packed.lanes[lane] = static_cast<T>(x[lane]);
  *reinterpret_cast<Pack<T, kPack>*>(row + i) = packed;
}

/// Calls body(i) for the packs of a row that are this thread's.
template <int kPack, typename Body>
__device__ void for_own_packs(int64_t columns, const Body& body) {
  const int64_t step = static_cast<int64_t>(blockDim.x) * kPack;
  for (int64_t i = static_cast<int64_t>(threadIdx.x) * kPack; i < columns; i += step) body(i);
}

/// Calls body(row) for the rows that are this thread's.
template <typename Body>
__device__ void for_own_rows(int64_t rows, const Body& body) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.y;
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y; row < rows;
       row += step) {
    body(row);
  }
}

inline bool is_aligned(const void* data, int64_t bytes) {
  return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(bytes) == 0;
}

struct RowGrid {
  dim3 grid;
  dim3 block;
};

inline RowGrid row_grid(int64_t rows, int64_t columns, int pack) {
  constexpr int kRowsOfABlock = 4;
  constexpr int64_t kMaxBlocks = 1 << 30;
  const int64_t packs = (columns + pack - 1) / pack;
  // Up to four packs a lane, a warp is enough.
  const bool warp_is_enough = packs <= int64_t{4} * kWarp;
  const int64_t threads =
      warp_is_enough
          ? kWarp
          : (packs < kMaxRowThreads ? (packs + kWarp - 1) / kWarp * kWarp : kMaxRowThreads);
  const int rows_of_a_block = warp_is_enough ? kRowsOfABlock : 1;
  const int64_t blocks = (rows + rows_of_a_block - 1) / rows_of_a_block;
  return {dim3(static_cast<unsigned>(blocks < kMaxBlocks ? blocks : kMaxBlocks)),
          dim3(static_cast<unsigned>(threads), rows_of_a_block)};
}

}  // namespace scramjet::ops
