#include <cstdio>

#include "ops/rope/rope_cuda_kernel.h"
#include "ops/row_kernel.cuh"

// The formulas are those of rope_cpu_kernel.cc.
namespace scramjet::ops {
namespace {

constexpr int kThreads = 256;

struct RowPlace {
  int64_t input = 0;
  int64_t position = 0;
};

__device__ RowPlace place_of(const RopeRows& rows, int64_t row) {
  RowPlace place;
  for (int d = rows.dims - 1; d >= 0; --d) {
    const int64_t step = row % rows.sizes[d];
    row /= rows.sizes[d];
    place.input += step * rows.input_strides[d];
    place.position += step * rows.position_strides[d];
  }
  if (rows.positions != nullptr) place.position = rows.positions[place.position];
  if (place.position < 0 || place.position >= rows.max_positions) {
    printf("scramjet::rope: argument 'positions' has %lld; expected 0 to %lld\n",
           static_cast<long long>(place.position), static_cast<long long>(rows.max_positions - 1));
    __trap();
  }
  return place;
}

/// kPack pairs (a, b) at once: from the two halves or, interleaved, from their neighbours.
template <typename T, typename Table, bool kInterleaved, int kPack>
__global__ void __launch_bounds__(kThreads) rope_kernel(int64_t rows, RopeRows operands) {
  using Number = typename ComputeType<T>::type;
  const int64_t pairs = operands.pairs;
  const Number sign = operands.inverse ? -1 : 1;
  for_own_rows(rows, [&](int64_t row) {
    const RowPlace place = place_of(operands, row);
    const T* x = reinterpret_cast<const T*>(operands.input) + place.input;
    T* y = reinterpret_cast<T*>(operands.output) + row * operands.head_dim;
    const Table* cos_row = reinterpret_cast<const Table*>(operands.cos) + place.position * pairs;
    const Table* sin_row = reinterpret_cast<const Table*>(operands.sin) + place.position * pairs;
    for_own_packs<kPack>(pairs, [&](int64_t i) {
      Number cos[kPack];
      Number sin[kPack];
      load_pack(cos_row, i, cos);
      load_pack(sin_row, i, sin);
      // The first pack and the second; where interleaved, each has both of kPack / 2 pairs.
      Number low[kPack];
      Number high[kPack];
      const int64_t first = kInterleaved ? 2 * i : i;
      const int64_t second = kInterleaved ? 2 * i + kPack : pairs + i;
      load_pack(x, first, low);
      load_pack(x, second, high);
      const auto element = [&](int k) -> Number& { return k < kPack ? low[k] : high[k - kPack]; };
#pragma unroll
      for (int lane = 0; lane < kPack; ++lane) {
        Number& a = element(kInterleaved ? 2 * lane : lane);
        Number& b = element(kInterleaved ? 2 * lane + 1 : kPack + lane);
        const Number turned = a * cos[lane] - b * (sign * sin[lane]);
        b = b * cos[lane] + a * (sign * sin[lane]);
        a = turned;
      }
      store_pack(low, y, first);
      store_pack(high, y, second);
    });
    for (int64_t i = 2 * pairs + threadIdx.x; i < operands.head_dim; i += blockDim.x) y[i] = x[i];
  });
}

template <typename T, typename Table, bool kInterleaved>
void launch_with_types(const RopeLaunch& launch, const RopeRows& operands) {
  constexpr int64_t kMaxBlocks = 1 << 30;
  constexpr int kPack = 16 / sizeof(T);
  bool packed = operands.pairs % kPack == 0 && operands.head_dim % kPack == 0 &&
                is_aligned(operands.input, 16) && is_aligned(operands.output, 16) &&
                is_aligned(operands.cos, sizeof(Table) * kPack) &&
                is_aligned(operands.sin, sizeof(Table) * kPack);
  for (int d = 0; d < operands.dims; ++d) {
    packed = packed && operands.input_strides[d] % kPack == 0;
  }
  const int64_t packs = packed ? operands.pairs / kPack : operands.pairs;
  int threads = 1;  // Of a row: a power of two, so that a block holds whole rows.
  while (threads < packs && threads < kThreads) threads *= 2;
  const int rows_of_a_block = kThreads / threads;
  const int64_t blocks = (launch.rows + rows_of_a_block - 1) / rows_of_a_block;
  auto* const kernel =
      packed ? rope_kernel<T, Table, kInterleaved, kPack> : rope_kernel<T, Table, kInterleaved, 1>;
  kernel<<<static_cast<unsigned>(blocks < kMaxBlocks ? blocks : kMaxBlocks),
           dim3(threads, rows_of_a_block), 0, static_cast<cudaStream_t>(launch.stream)>>>(
      launch.rows, operands);
}

template <typename T, typename Table>
void launch_with_types(const RopeLaunch& launch, const RopeRows& operands) {
  return launch.interleaved ? launch_with_types<T, Table, true>(launch, operands)
                            : launch_with_types<T, Table, false>(launch, operands);
}

}  // namespace

void launch_rope(const RopeLaunch& launch, const RopeRows& operands) {
  with_cuda_type(launch.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (sizeof(T) == 2) {
      if (launch.tables == CudaDtype::kFloat) return launch_with_types<T, float>(launch, operands);
    }
    launch_with_types<T, T>(launch, operands);
  });
}

}  // namespace scramjet::ops
