#include "ops/cuda_kernel_types.cuh"
#include "ops/norm/norm_cuda_kernel.h"

// The formulas are those of norm_cpu_kernel.cc. A row belongs to a warp or, where it is long, to a
// block; it comes from memory once and from the cache again.
namespace scramjet::ops {
namespace {

constexpr int kWarp = 32;
constexpr int kMaxThreads = 512;
// 64 registers a thread. Left to itself, nvcc keeps values in local memory to fit more blocks.
constexpr int kBlocksAtOnce = 2;

template <typename T>
__device__ T* row_of(const Rows& rows, int64_t row) {
  return rows.data == nullptr ? nullptr : reinterpret_cast<T*>(rows.data) + row * rows.stride;
}

// Rounded once: an error of rsqrtf, of two units, would be that of a whole row.
__device__ float inverse_root(float x) { return ::__frsqrt_rn(x); }
__device__ double inverse_root(double x) { return ::rsqrt(x); }

/// The sums over the threads of a row, in each of them: a warp's if blockDim.x is kWarp, else the
/// block's.
template <typename Number, int kSums>
__device__ void sum_over_row(Number (&sums)[kSums]) {
#pragma unroll
  for (int k = 0; k < kSums; ++k) {
#pragma unroll
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      sums[k] += __shfl_xor_sync(0xffffffffU, sums[k], distance);
    }
  }
  if (blockDim.x == kWarp) return;
  __shared__ Number of_warp[kSums][kMaxThreads / kWarp];
  const int warps = blockDim.x / kWarp;
  __syncthreads();  // Whoever still reads the sums before these.
  if (threadIdx.x % kWarp == 0) {
    for (int k = 0; k < kSums; ++k) of_warp[k][threadIdx.x / kWarp] = sums[k];
  }
  __syncthreads();
  for (int k = 0; k < kSums; ++k) {
    sums[k] = 0;
    for (int warp = 0; warp < warps; ++warp) sums[k] += of_warp[k][warp];
  }
}

/// kPack elements from column i on, widened.
template <int kPack, typename Number, typename T>
__device__ void load(const T* row, int64_t i, Number (&x)[kPack]) {
  const auto packed = *reinterpret_cast<const Pack<T, kPack>*>(row + i);
#pragma unroll
  for (int lane = 0; lane < kPack; ++lane) x[lane] = static_cast<Number>(packed.lanes[lane]);
}

template <int kPack, typename Number, typename T>
__device__ void store(const Number (&x)[kPack], T* row, int64_t i) {
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

template <typename Number, int kPack, typename T>
__device__ Number row_mean(const T* x, int64_t columns) {
  Number sum[1] = {};
  for_own_packs<kPack>(columns, [&](int64_t i) {
    Number value[kPack];
    load(x, i, value);
    for (int lane = 0; lane < kPack; ++lane) sum[0] += value[lane];
  });
  sum_over_row(sum);
  return sum[0] / static_cast<Number>(columns);
}

/// What a row's normalized elements are made of, as in norm_moments.h: (x - center) * rstd + shift.
template <typename Number, bool kCentered>
struct Moments {
  Number center;
  Number rstd;
  Number shift;

  __device__ Number normalized(Number x) const {
    if constexpr (kCentered) return (x - center) * rstd + shift;
    return x * rstd;
  }
};

/// From the sums of x - center and of its square: the corrected two-pass algorithm (Chan, Golub,
/// LeVeque 1983, equation 1.7).
template <bool kCentered, typename Number>
__device__ Moments<Number, kCentered> moments_of(Number center, Number sum, Number squares,
                                                 Number columns, double eps) {
  Number variance = squares / columns;
  if constexpr (kCentered) {
    variance = (squares - sum * sum / columns) / columns;
    if (variance < 0) variance = 0;  // NaN stays.
  }
  const Number rstd = inverse_root(variance + static_cast<Number>(eps));
  return {center, rstd, kCentered ? -sum / columns * rstd : Number(0)};
}

template <typename T, typename Parameter, bool kCentered, int kPack>
__global__ void __launch_bounds__(kMaxThreads, kBlocksAtOnce)
    norm_kernel(int64_t rows, NormRows operands) {
  using Number = typename ComputeType<T>::type;
  const int64_t columns = operands.columns;
  const auto* weight = reinterpret_cast<const Parameter*>(operands.weight);
  const auto* bias = reinterpret_cast<const Parameter*>(operands.bias);
  for_own_rows(rows, [&](int64_t row) {
    const T* x = row_of<const T>(operands.input, row);
    if (operands.residual.data != nullptr) {
      const T* residual = row_of<const T>(operands.residual, row);
      T* sum = row_of<T>(operands.sum, row);
      for_own_packs<kPack>(columns, [&](int64_t i) {
        Number a[kPack];
        Number b[kPack];
        load(x, i, a);
        load(residual, i, b);
        for (int lane = 0; lane < kPack; ++lane) a[lane] += b[lane];
        store(a, sum, i);
      });
      x = sum;  // A thread reads what it has written itself.
    }
    Number center = 0;
    if constexpr (kCentered) center = row_mean<Number, kPack>(x, columns);
    Number sums[2] = {};
    for_own_packs<kPack>(columns, [&](int64_t i) {
      Number value[kPack];
      load(x, i, value);
      for (int lane = 0; lane < kPack; ++lane) {
        const Number offset = value[lane] - center;
        sums[0] += offset;
        sums[1] += offset * offset;
      }
    });
    sum_over_row(sums);
    const auto moments =
        moments_of<kCentered>(center, sums[0], sums[1], static_cast<Number>(columns), operands.eps);
    T* y = row_of<T>(operands.output, row);
    for_own_packs<kPack>(columns, [&](int64_t i) {
      Number value[kPack];
      Number factor[kPack];
      Number term[kPack];
      load(x, i, value);
      if (weight != nullptr) load(weight, i, factor);
      if (bias != nullptr) load(bias, i, term);
      for (int lane = 0; lane < kPack; ++lane) {
        value[lane] = moments.normalized(value[lane]);
        if (weight != nullptr) value[lane] *= factor[lane];
        if (bias != nullptr) value[lane] += term[lane];
      }
      store(value, y, i);
    });
  });
}

template <typename T, typename Parameter, bool kCentered, int kPack>
__global__ void __launch_bounds__(kMaxThreads, kBlocksAtOnce)
    norm_backward_kernel(int64_t rows, NormBackwardRows operands, NormBackwardRoom room) {
  using Number = typename ComputeType<T>::type;
  const int64_t columns = operands.columns;
  const auto* weight = reinterpret_cast<const Parameter*>(operands.weight);
  for_own_rows(rows, [&](int64_t row) {
    const T* x = row_of<const T>(operands.input, row);
    const T* grad_output = row_of<const T>(operands.grad_output, row);
    const T* grad_sum = row_of<const T>(operands.grad_sum, row);
    T* grad_input = row_of<T>(operands.grad_input, row);
    const auto load_slope = [&](int64_t i, Number(&slope)[kPack]) {
      load(grad_output, i, slope);
      if (weight == nullptr) return;
      Number factor[kPack];
      load(weight, i, factor);
      for (int lane = 0; lane < kPack; ++lane) slope[lane] *= factor[lane];
    };
    Number center = 0;
    if constexpr (kCentered) center = row_mean<Number, kPack>(x, columns);
    Number sums[4] = {};  // Of x - center, its square, the slopes, and slope times x - center.
    for_own_packs<kPack>(columns, [&](int64_t i) {
      Number value[kPack];
      Number slope[kPack];
      load(x, i, value);
      load_slope(i, slope);
      for (int lane = 0; lane < kPack; ++lane) {
        const Number offset = value[lane] - center;
        sums[0] += offset;
        sums[1] += offset * offset;
        sums[2] += slope[lane];
        sums[3] += slope[lane] * offset;
      }
    });
    sum_over_row(sums);
    const auto count = static_cast<Number>(columns);
    const auto moments = moments_of<kCentered>(center, sums[0], sums[1], count, operands.eps);
    // The means of slope times the normalized x, and of the slope.
    Number product = sums[3];
    Number mean_slope = 0;
    if constexpr (kCentered) {
      product -= sums[0] / count * sums[2];
      mean_slope = sums[2] / count;
    }
    const Number mean_product = product / count * moments.rstd;
    if (room.center != nullptr && threadIdx.x == 0) {
      reinterpret_cast<Number*>(room.center)[row] = moments.center;
      reinterpret_cast<Number*>(room.rstd)[row] = moments.rstd;
      reinterpret_cast<Number*>(room.shift)[row] = moments.shift;
    }
    for_own_packs<kPack>(columns, [&](int64_t i) {
      Number value[kPack];
      Number slope[kPack];
      Number added[kPack];
      load(x, i, value);
      load_slope(i, slope);
      if (grad_sum != nullptr) load(grad_sum, i, added);
      for (int lane = 0; lane < kPack; ++lane) {
        const Number normalized = moments.normalized(value[lane]);
        slope[lane] = (slope[lane] - mean_slope - normalized * mean_product) * moments.rstd;
        if (grad_sum != nullptr) slope[lane] += added[lane];
      }
      store(slope, grad_input, i);
    });
  });
}

constexpr int kTileColumns = 32;
constexpr int kTileRows = 8;

/// A thread sums up one column over every kTileRows-th row of its split.
template <typename T>
__global__ void __launch_bounds__(kTileColumns* kTileRows)
    parameter_gradient_kernel(int64_t rows, NormBackwardRows operands, NormBackwardRoom room) {
  using Number = typename ComputeType<T>::type;
  __shared__ Number weight_sums[kTileRows][kTileColumns];
  __shared__ Number bias_sums[kTileRows][kTileColumns];
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kTileColumns + threadIdx.x;
  const auto* centers = reinterpret_cast<const Number*>(room.center);
  const auto* rstds = reinterpret_cast<const Number*>(room.rstd);
  const auto* shifts = reinterpret_cast<const Number*>(room.shift);
  const int64_t begin = rows * blockIdx.y / room.splits;
  const int64_t end = rows * (blockIdx.y + 1) / room.splits;
  Number weight_sum = 0;
  Number bias_sum = 0;
  if (column < operands.columns) {
    for (int64_t row = begin + threadIdx.y; row < end; row += kTileRows) {
      const auto grad = static_cast<Number>(row_of<const T>(operands.grad_output, row)[column]);
      const auto x = static_cast<Number>(row_of<const T>(operands.input, row)[column]);
      weight_sum += grad * ((x - centers[row]) * rstds[row] + shifts[row]);
      bias_sum += grad;
    }
  }
  weight_sums[threadIdx.y][threadIdx.x] = weight_sum;
  bias_sums[threadIdx.y][threadIdx.x] = bias_sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= operands.columns) return;
  for (int other = 1; other < kTileRows; ++other) {
    weight_sum += weight_sums[other][threadIdx.x];
    bias_sum += bias_sums[other][threadIdx.x];
  }
  const int64_t place = static_cast<int64_t>(blockIdx.y) * operands.columns + column;
  if (operands.grad_weight != nullptr) {
    reinterpret_cast<Number*>(operands.grad_weight)[place] = weight_sum;
  }
  if (operands.grad_bias != nullptr) {
    reinterpret_cast<Number*>(operands.grad_bias)[place] = bias_sum;
  }
}

bool fits(const char* data, int64_t bytes) {
  return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(bytes) == 0;
}

/// Whether each row can be read by packs.
bool fits(const Rows& rows, int64_t element, int pack) {
  return fits(rows.data, element * pack) && rows.stride % pack == 0;
}

struct Shape {
  dim3 grid;
  dim3 block;
};

Shape shape_of(int64_t rows, int64_t columns, int pack) {
  constexpr int kRowsOfABlock = 4;
  constexpr int64_t kMaxBlocks = 1 << 30;
  const int64_t packs = (columns + pack - 1) / pack;
  // Up to four packs a lane, a warp is enough.
  const bool warp_is_enough = packs <= int64_t{4} * kWarp;
  const int64_t threads =
      warp_is_enough ? kWarp
                     : (packs < kMaxThreads ? (packs + kWarp - 1) / kWarp * kWarp : kMaxThreads);
  const int rows_of_a_block = warp_is_enough ? kRowsOfABlock : 1;
  const int64_t blocks = (rows + rows_of_a_block - 1) / rows_of_a_block;
  return {dim3(static_cast<unsigned>(blocks < kMaxBlocks ? blocks : kMaxBlocks)),
          dim3(static_cast<unsigned>(threads), rows_of_a_block)};
}

/// Calls launch(TypeTag<T>(), TypeTag<Parameter>()).
template <typename Launch>
void with_types(const NormLaunch& launch, const Launch& body) {
  with_cuda_type(launch.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (sizeof(T) == 2) {
      if (launch.parameters == CudaDtype::kFloat) return body(tag, TypeTag<float>());
    }
    body(tag, tag);
  });
}

}  // namespace

void launch_norm(const NormLaunch& launch, const NormRows& operands) {
  with_types(launch, [&](auto tag, auto parameter_tag) {
    using T = typename decltype(tag)::type;
    using Parameter = typename decltype(parameter_tag)::type;
    constexpr int kPack = 16 / sizeof(T);
    constexpr int64_t kParameterBytes = sizeof(Parameter) * kPack;
    const bool packed =
        operands.columns % kPack == 0 && fits(operands.input, sizeof(T), kPack) &&
        fits(operands.residual, sizeof(T), kPack) && fits(operands.output, sizeof(T), kPack) &&
        fits(operands.sum, sizeof(T), kPack) && fits(operands.weight, kParameterBytes) &&
        fits(operands.bias, kParameterBytes);
    const Shape shape = shape_of(launch.rows, operands.columns, packed ? kPack : 1);
    auto* const kernel = packed ? (launch.centered ? norm_kernel<T, Parameter, true, kPack>
                                                   : norm_kernel<T, Parameter, false, kPack>)
                                : (launch.centered ? norm_kernel<T, Parameter, true, 1>
                                                   : norm_kernel<T, Parameter, false, 1>);
    kernel<<<shape.grid, shape.block, 0, static_cast<cudaStream_t>(launch.stream)>>>(launch.rows,
                                                                                     operands);
  });
}

void launch_norm_backward(const NormLaunch& launch, const NormBackwardRows& operands,
                          const NormBackwardRoom& room) {
  const auto stream = static_cast<cudaStream_t>(launch.stream);
  with_types(launch, [&](auto tag, auto parameter_tag) {
    using T = typename decltype(tag)::type;
    using Parameter = typename decltype(parameter_tag)::type;
    constexpr int kPack = 16 / sizeof(T);
    const bool packed = operands.columns % kPack == 0 && fits(operands.input, sizeof(T), kPack) &&
                        fits(operands.grad_output, sizeof(T), kPack) &&
                        fits(operands.grad_sum, sizeof(T), kPack) &&
                        fits(operands.grad_input, sizeof(T), kPack) &&
                        fits(operands.weight, sizeof(Parameter) * kPack);
    const Shape shape = shape_of(launch.rows, operands.columns, packed ? kPack : 1);
    auto* const kernel = packed
                             ? (launch.centered ? norm_backward_kernel<T, Parameter, true, kPack>
                                                : norm_backward_kernel<T, Parameter, false, kPack>)
                             : (launch.centered ? norm_backward_kernel<T, Parameter, true, 1>
                                                : norm_backward_kernel<T, Parameter, false, 1>);
    kernel<<<shape.grid, shape.block, 0, stream>>>(launch.rows, operands, room);
    if (operands.grad_weight == nullptr && operands.grad_bias == nullptr) return;
    const int64_t tiles = (operands.columns + kTileColumns - 1) / kTileColumns;
    const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(room.splits));
    parameter_gradient_kernel<T>
        <<<grid, dim3(kTileColumns, kTileRows), 0, stream>>>(launch.rows, operands, room);
  });
}

}  // namespace scramjet::ops
