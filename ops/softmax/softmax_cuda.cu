#include <type_traits>

#include "ops/row_kernel.cuh"
#include "ops/softmax/softmax_cuda_kernel.h"

// The formulas are those of softmax_cpu_kernel.cc.
namespace scramjet::ops {
namespace {

/// In place of a mask's type, where there is none.
struct NoMask {};

__device__ float exp_of(float x) { return ::expf(x); }
__device__ double exp_of(double x) { return ::exp(x); }

template <typename Number>
__device__ Number minus_infinity() {
  return -static_cast<Number>(__int_as_float(0x7f800000));
}

/// How many columns of a row take part.
__device__ int64_t seen_columns(int64_t row, int64_t queries, int64_t columns) {
  if (queries == 0) return columns;
  const int64_t seen = row % queries + 1;
  return seen < columns ? seen : columns;
}

/// Where the row of `mask` starts that belongs to `row`.
template <typename Mask>
__device__ const Mask* mask_row(const MaskRows& mask, int64_t row) {
  int64_t offset = 0;
  for (int d = mask.dims - 1; d >= 0; --d) {
    offset += row % mask.sizes[d] * mask.strides[d];
    row /= mask.sizes[d];
  }
  return reinterpret_cast<const Mask*>(mask.data) + offset;
}

/// kPack scores from column i on; what is masked out, or not below `seen`, is -inf.
template <int kPack, typename Number, typename T, typename Mask>
__device__ void load_scores(const T* x, const Mask* mask, int64_t i, int64_t seen, Number scale,
                            Number (&scores)[kPack]) {
  load_pack(x, i, scores);
#pragma unroll
  for (int lane = 0; lane < kPack; ++lane) scores[lane] *= scale;
  if constexpr (std::is_same_v<Mask, bool>) {
    const auto kept = *reinterpret_cast<const Pack<bool, kPack>*>(mask + i);
#pragma unroll
    for (int lane = 0; lane < kPack; ++lane) {
      if (!kept.lanes[lane]) scores[lane] = minus_infinity<Number>();
    }
  } else if constexpr (!std::is_empty_v<Mask>) {
    Number added[kPack];
    load_pack(mask, i, added);
#pragma unroll
    for (int lane = 0; lane < kPack; ++lane) scores[lane] += added[lane];
  }
#pragma unroll
  for (int lane = 0; lane < kPack; ++lane) {
    if (i + lane >= seen) scores[lane] = minus_infinity<Number>();
  }
}

template <typename T, typename Mask, int kPack>
__global__ void __launch_bounds__(kMaxRowThreads)
    softmax_kernel(int64_t rows, SoftmaxRows operands) {
  using Number = typename ComputeType<T>::type;
  const int64_t columns = operands.columns;
  const auto scale = static_cast<Number>(operands.scale);
  for_own_rows(rows, [&](int64_t row) {
    const T* x = reinterpret_cast<const T*>(operands.input) + row * operands.input_stride;
    const Mask* mask = mask_row<Mask>(operands.mask, row);
    T* y = reinterpret_cast<T*>(operands.output) + row * columns;
    const int64_t seen = seen_columns(row, operands.queries, columns);
    Number max[1] = {minus_infinity<Number>()};
    for_own_packs<kPack>(seen, [&](int64_t i) {
      Number scores[kPack];
      load_scores(x, mask, i, seen, scale, scores);
      for (int lane = 0; lane < kPack; ++lane) max[0] = ::max(max[0], scores[lane]);
    });
    combine_over_row(max, [](Number a, Number b) { return ::max(a, b); });
    Number sum[1] = {};
    for_own_packs<kPack>(seen, [&](int64_t i) {
      Number scores[kPack];
      load_scores(x, mask, i, seen, scale, scores);
      for (int lane = 0; lane < kPack; ++lane) sum[0] += exp_of(scores[lane] - max[0]);
    });
    sum_over_row(sum);
    const Number inverse = 1 / sum[0];
    for_own_packs<kPack>(columns, [&](int64_t i) {
      Number scores[kPack];
      if (i < seen) {
        load_scores(x, mask, i, seen, scale, scores);
        for (int lane = 0; lane < kPack; ++lane) {
          scores[lane] = exp_of(scores[lane] - max[0]) * inverse;
        }
      } else {
        // Where the row is NaN, all of it is.
        for (int lane = 0; lane < kPack; ++lane) scores[lane] = 0 * inverse;
      }
      store_pack(scores, y, i);
    });
  });
}

template <typename T, typename Mask, int kPack>
__global__ void __launch_bounds__(kMaxRowThreads)
    softmax_backward_kernel(int64_t rows, SoftmaxBackwardRows operands) {
  using Number = typename ComputeType<T>::type;
  const int64_t columns = operands.columns;
  const auto scale = static_cast<Number>(operands.scale);
  for_own_rows(rows, [&](int64_t row) {
    const T* grad_output =
        reinterpret_cast<const T*>(operands.grad_output) + row * operands.grad_output_stride;
    const T* output = reinterpret_cast<const T*>(operands.output) + row * operands.output_stride;
    const Mask* mask = mask_row<Mask>(operands.mask, row);
    T* grad_input = reinterpret_cast<T*>(operands.grad_input) + row * columns;
    const int64_t seen = seen_columns(row, operands.queries, columns);
    Number sum[1] = {};
    for_own_packs<kPack>(seen, [&](int64_t i) {
      Number grad[kPack];
      Number y[kPack];
      load_pack(grad_output, i, grad);
      load_pack(output, i, y);
      for (int lane = 0; lane < kPack; ++lane) {
        if (i + lane < seen) sum[0] += grad[lane] * y[lane];
      }
    });
    sum_over_row(sum);
    for_own_packs<kPack>(columns, [&](int64_t i) {
      Number grad[kPack] = {};
      if (i < seen) {
        Number y[kPack];
        load_pack(grad_output, i, grad);
        load_pack(output, i, y);
        for (int lane = 0; lane < kPack; ++lane) {
          bool is_left_out = i + lane >= seen;
          if constexpr (!std::is_empty_v<Mask>) is_left_out = is_left_out || !mask[i + lane];
          grad[lane] = is_left_out ? Number(0) : (grad[lane] - sum[0]) * y[lane] * scale;
        }
      }
      store_pack(grad, grad_input, i);
    });
  });
}

/// Whether each row of a mask whose elements have `element` bytes can be read by packs.
bool is_packed(const MaskRows& mask, int64_t element, int pack) {
  bool fits = is_aligned(mask.data, element * pack);
  for (int d = 0; d < mask.dims; ++d) fits = fits && mask.strides[d] % pack == 0;
  return fits;
}

/// Calls body(TypeTag<Mask>()).
template <typename T, typename Body>
void with_mask_type(MaskKind mask, const Body& body) {
  switch (mask) {
    case MaskKind::kNone:
      return body(TypeTag<NoMask>());
    case MaskKind::kBool:
      return body(TypeTag<bool>());
    case MaskKind::kOfDtype:
      return body(TypeTag<T>());
    case MaskKind::kFloat:
      if constexpr (sizeof(T) == 2) return body(TypeTag<float>());
      return;
  }
}

}  // namespace

void launch_softmax(const SoftmaxLaunch& launch, const SoftmaxRows& operands) {
  with_cuda_type(launch.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int kPack = 16 / sizeof(T);
    with_mask_type<T>(launch.mask, [&](auto mask_tag) {
      using Mask = typename decltype(mask_tag)::type;
      const bool packed = operands.columns % kPack == 0 && is_aligned(operands.input, 16) &&
                          operands.input_stride % kPack == 0 && is_aligned(operands.output, 16) &&
                          is_packed(operands.mask, sizeof(Mask), kPack);
      const RowGrid shape = row_grid(launch.rows, operands.columns, packed ? kPack : 1);
      auto* const kernel = packed ? softmax_kernel<T, Mask, kPack> : softmax_kernel<T, Mask, 1>;
      kernel<<<shape.grid, shape.block, 0, static_cast<cudaStream_t>(launch.stream)>>>(launch.rows,
                                                                                       operands);
    });
  });
}

void launch_softmax_backward(const SoftmaxLaunch& launch, const SoftmaxBackwardRows& operands) {
  with_cuda_type(launch.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int kPack = 16 / sizeof(T);
    const bool packed = operands.columns % kPack == 0 && is_aligned(operands.grad_output, 16) &&
                        operands.grad_output_stride % kPack == 0 &&
                        is_aligned(operands.output, 16) && operands.output_stride % kPack == 0 &&
                        is_aligned(operands.grad_input, 16);
    const RowGrid shape = row_grid(launch.rows, operands.columns, packed ? kPack : 1);
    const bool has_mask = launch.mask == MaskKind::kBool;
    auto* const kernel = packed ? (has_mask ? softmax_backward_kernel<T, bool, kPack>
                                            : softmax_backward_kernel<T, NoMask, kPack>)
                                : (has_mask ? softmax_backward_kernel<T, bool, 1>
                                            : softmax_backward_kernel<T, NoMask, 1>);
    kernel<<<shape.grid, shape.block, 0, static_cast<cudaStream_t>(launch.stream)>>>(launch.rows,
                                                                                     operands);
  });
}

}  // namespace scramjet::ops
