#undef NDEBUG  // As in torch, a target that is no class is an assertion in every build.
#include <cassert>

#include "ops/cuda_kernel_types.cuh"
#include "ops/loss/loss_cuda_kernel.h"

// The formulas are those of loss_cpu_kernel.cc. A row belongs to a block; it comes from memory once
// and, for the gradients, from the cache again.
namespace scramjet::ops {
namespace {

constexpr int kWarp = 32;
constexpr int kMaxThreads = 1024;

template <typename T>
__device__ T* row_of(const LossMatrix& matrix, int64_t row) {
  return reinterpret_cast<T*>(matrix.data) + row * matrix.stride;
}

__device__ float exp_of(float x) { return ::expf(x); }
__device__ double exp_of(double x) { return ::exp(x); }

template <typename Number>
__device__ Number least() {
  return -static_cast<Number>(INFINITY);
}

/// The sum of exp(x - max) over some elements x, and their sum.
template <typename Number>
struct Sums {
  Number max = least<Number>();
  Number exponentials = 0;
  Number sum = 0;
};

/// exp(x - max), and 0 where both are minus infinity.
template <typename Number>
__device__ Number exp_below(Number x, Number max) {
  return x == least<Number>() ? Number(0) : exp_of(x - max);
}

/// NaN is no maximum, but stays in the sum of exponentials.
template <typename Number>
__device__ Number larger(Number a, Number b) {
  return b > a ? b : a;
}

template <typename Number>
__device__ Sums<Number> joined(const Sums<Number>& a, const Sums<Number>& b) {
  Sums<Number> both;
  both.max = larger(a.max, b.max);
  const auto rescaled = [&](const Sums<Number>& x) {
    return x.max == both.max ? x.exponentials : x.exponentials * exp_below(x.max, both.max);
  };
  both.exponentials = rescaled(a) + rescaled(b);
  both.sum = a.sum + b.sum;
  return both;
}

template <typename Number>
__device__ Sums<Number> joined_over_warp(Sums<Number> own) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    Sums<Number> other;
    other.max = __shfl_xor_sync(0xffffffffU, own.max, distance);
    other.exponentials = __shfl_xor_sync(0xffffffffU, own.exponentials, distance);
    other.sum = __shfl_xor_sync(0xffffffffU, own.sum, distance);
    own = joined(own, other);
  }
  return own;
}

/// In every thread.
template <typename Number>
__device__ Sums<Number> joined_over_block(Sums<Number> own) {
  __shared__ Number max[kMaxThreads / kWarp];
  __shared__ Number exponentials[kMaxThreads / kWarp];
  __shared__ Number sum[kMaxThreads / kWarp];
  own = joined_over_warp(own);
  const unsigned warp = threadIdx.x / kWarp;
  __syncthreads();  // Whoever still reads the sums of the row before.
  if (threadIdx.x % kWarp == 0) {
    max[warp] = own.max;
    exponentials[warp] = own.exponentials;
    sum[warp] = own.sum;
  }
  __syncthreads();
  const unsigned lane = threadIdx.x % kWarp;
  Sums<Number> of_warp;
  if (lane < blockDim.x / kWarp) {
    of_warp.max = max[lane];
    of_warp.exponentials = exponentials[lane];
    of_warp.sum = sum[lane];
  }
  return joined_over_warp(of_warp);
}

/// Calls body(i) for the packs of a row that are this thread's.
template <int kPack, typename Body>
__device__ void for_own_packs(int64_t columns, const Body& body) {
  const int64_t step = static_cast<int64_t>(blockDim.x) * kPack;
  for (int64_t i = static_cast<int64_t>(threadIdx.x) * kPack; i < columns; i += step) body(i);
}

template <typename Number, int kPack, typename T>
__device__ Sums<Number> sums_of_row(const T* x, int64_t columns) {
  Sums<Number> own;
  for_own_packs<kPack>(columns, [&](int64_t i) {
    const auto packed = *reinterpret_cast<const Pack<T, kPack>*>(x + i);
    Number value[kPack];
    Number max = own.max;
#pragma unroll
    for (int lane = 0; lane < kPack; ++lane) {
      value[lane] = static_cast<Number>(packed.lanes[lane]);
      max = larger(max, value[lane]);
    }
    if (max != own.max) own.exponentials *= exp_below(own.max, max);
    own.max = max;
#pragma unroll
    for (int lane = 0; lane < kPack; ++lane) {
      own.exponentials += exp_below(value[lane], max);
      own.sum += value[lane];
    }
  });
  return joined_over_block(own);
}

/// The row's logsumexp, in every thread.
template <typename T, int kPack>
__device__ double loss_of_row(const LossRows& rows, int64_t row, double x_of_target) {
  using Number = typename ComputeType<T>::type;
  const Sums<Number> sums =
      sums_of_row<Number, kPack>(row_of<const T>(rows.logits, row), rows.columns);
  const double lse = static_cast<double>(sums.max) + ::log(static_cast<double>(sums.exponentials));
  if (threadIdx.x == 0) {
    double loss = lse - x_of_target;
    if (rows.label_smoothing != 0) {
      const double mean = static_cast<double>(sums.sum) / static_cast<double>(rows.columns);
      loss = (1 - rows.label_smoothing) * loss + rows.label_smoothing * (lse - mean);
    }
    if (rows.z_loss != 0) loss += rows.z_loss * lse * lse;
    rows.loss[row] = loss;
    rows.logsumexp[row] = lse;
  }
  return lse;
}

/// The gradients may take the place of the logits: every thread has read the target's before.
template <typename T, int kPack>
__device__ void gradient_of_row(const LossRows& rows, int64_t row, double lse, double x_of_target) {
  using Number = typename ComputeType<T>::type;
  const T* x = row_of<const T>(rows.logits, row);
  T* y = row_of<T>(rows.grad_logits, row);
  const int64_t target = rows.target[row] - rows.first_class;
  const double grad = rows.grad[row];
  const double slope = rows.z_loss == 0 ? grad : grad * (1 + 2 * rows.z_loss * lse);
  const double uniform = grad * rows.label_smoothing / static_cast<double>(rows.classes);
  // What rounding takes from a large lse goes into the factor.
  const auto shift = static_cast<Number>(lse);
  const auto factor = static_cast<Number>(slope * ::exp(static_cast<double>(shift) - lse));
  const auto term = static_cast<Number>(uniform);
  for_own_packs<kPack>(rows.columns, [&](int64_t i) {
    auto packed = *reinterpret_cast<const Pack<T, kPack>*>(x + i);
#pragma unroll
    for (int lane = 0; lane < kPack; ++lane) {
      Number value = exp_of(static_cast<Number>(packed.lanes[lane]) - shift) * factor - term;
      if (i + lane == target) {
        value = static_cast<Number>(slope * ::exp(x_of_target - lse) - uniform -
                                    grad * (1 - rows.label_smoothing));
      }
      packed.lanes[lane] = static_cast<T>(value);
    }
    *reinterpret_cast<Pack<T, kPack>*>(y + i) = packed;
  });
}

template <typename T, int kPack>
__device__ void ignore_row(const LossRows& rows, int64_t row) {
  if (rows.loss != nullptr && threadIdx.x == 0) rows.loss[row] = rows.logsumexp[row] = 0;
  if (rows.grad == nullptr) return;
  T* y = row_of<T>(rows.grad_logits, row);
  Pack<T, kPack> zeros;
#pragma unroll
  for (int lane = 0; lane < kPack; ++lane) zeros.lanes[lane] = static_cast<T>(0.0F);
  for_own_packs<kPack>(rows.columns,
                       [&](int64_t i) { *reinterpret_cast<Pack<T, kPack>*>(y + i) = zeros; });
}

template <typename T, int kPack>
__global__ void __launch_bounds__(kMaxThreads) loss_kernel(LossRows rows, int64_t count) {
  for (int64_t row = blockIdx.x; row < count; row += gridDim.x) {
    const int64_t target = rows.target[row];
    if (target == rows.ignore_index) {
      ignore_row<T, kPack>(rows, row);
      continue;
    }
    assert(target >= 0 && target < rows.classes);
    const int64_t column = target - rows.first_class;
    const bool has_target = column >= 0 && column < rows.columns;
    const double x_of_target =
        has_target ? static_cast<double>(row_of<const T>(rows.logits, row)[column]) : 0;
    const double lse =
        rows.loss == nullptr ? rows.logsumexp[row] : loss_of_row<T, kPack>(rows, row, x_of_target);
    if (rows.grad == nullptr) continue;
    __syncthreads();  // Until all have the target's logit, of which the gradient takes the place.
    gradient_of_row<T, kPack>(rows, row, lse, x_of_target);
  }
}

bool fits(const LossMatrix& matrix, int64_t element, int pack) {
  return reinterpret_cast<uintptr_t>(matrix.data) % static_cast<uintptr_t>(element * pack) == 0 &&
         matrix.stride % pack == 0;
}

unsigned threads_of(int64_t columns, int pack) {
  const int64_t packs = (columns + pack - 1) / pack;
  if (packs >= kMaxThreads) return kMaxThreads;
  return static_cast<unsigned>((packs + kWarp - 1) / kWarp * kWarp);
}

}  // namespace

void launch_loss_rows(CudaDtype dtype, const LossRows& rows, int64_t count, void* stream) {
  constexpr int64_t kMaxBlocks = 1 << 30;
  const auto blocks = static_cast<unsigned>(count < kMaxBlocks ? count : kMaxBlocks);
  with_cuda_type(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int kPack = 16 / sizeof(T);
    const bool packed = rows.columns % kPack == 0 && fits(rows.logits, sizeof(T), kPack) &&
                        fits(rows.grad_logits, sizeof(T), kPack);
    auto* const kernel = packed ? loss_kernel<T, kPack> : loss_kernel<T, 1>;
    kernel<<<blocks, threads_of(rows.columns, packed ? kPack : 1), 0,
             static_cast<cudaStream_t>(stream)>>>(rows, count);
  });
}

}  // namespace scramjet::ops
