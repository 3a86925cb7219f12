#include "ops/softmax/softmax_cpu_kernel.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <type_traits>

#include "ops/softmax/softmax_scores.h"
#include "ops/vector_exp.h"
#include "ops/vector_pair.h"

namespace scramjet::ops {
namespace CPU_CAPABILITY {
namespace {

/// The offsets of the rows of a mask, row after row.
class MaskWalk {
 public:
  MaskWalk(const MaskRows& mask, int64_t row) : mask_(mask) {
    for (int d = mask.dims - 1; d >= 0; --d) {
      place_[d] = row % mask.sizes[d];
      row /= mask.sizes[d];
      offset_ += place_[d] * mask.strides[d];
    }
  }

  int64_t offset() const { return offset_; }

  void advance() {
    for (int d = mask_.dims - 1; d >= 0; --d) {
      offset_ += mask_.strides[d];
      if (++place_[d] < mask_.sizes[d]) return;
      offset_ -= mask_.sizes[d] * mask_.strides[d];
      place_[d] = 0;
    }
  }

 private:
  const MaskRows& mask_;
  std::array<int64_t, MaskRows::kMaxDims> place_{};
  int64_t offset_ = 0;
};

/// How many columns of a row take part.
int64_t seen_columns(int64_t row, int64_t queries, int64_t columns) {
  return queries == 0 ? columns : std::min(columns, row % queries + 1);
}

template <typename Stored, typename Number>
C10_ALWAYS_INLINE Pair<Number> pair_exp(const Pair<Number>& x) {
  return {vector_exp<Stored>(x.low), vector_exp<Stored>(x.high)};
}

template <typename T>
void fill(T* data, Compute<T> value, int64_t count) {
  const Pair<Compute<T>> values(value);
  for_each_pair<T>(count, [&](int64_t i, auto n) { store_pair<T>(values, data + i, n); });
}

/// exp(score - max) goes to `exps`, which is the row of the output where that is wide enough.
template <typename T, typename Mask>
void forward_row(const Scores<T, Mask>& scores, int64_t seen, int64_t columns, Compute<T>* exps,
                 T* y) {
  using Number = Compute<T>;
  const Pair<Number> max(row_max(seen, scores));
  const auto [sum] = row_sums<T, 1>(seen, [&](int64_t i, auto count, auto& sums) {
    const auto value = pair_exp<T>(scores.minus(max, i, count));
    store_pair<Number>(value, exps + i, count);
    sums[0] = sums[0] + value;
  });
  const auto inverse = static_cast<Number>(1 / sum);
  const Pair<Number> factor(inverse);
  for_each_pair<T>(seen, [&](int64_t i, auto count) {
    store_pair<T>(load_pair<Number>(exps + i, count) * factor, y + i, count);
  });
  // Where the row is NaN, all of it is.
  if (seen < columns) fill(y + seen, 0 * inverse, columns - seen);
}

template <typename T, typename Mask>
void forward(const SoftmaxRows& rows, char* scratch, int64_t begin, int64_t end) {
  using Number = Compute<T>;
  const auto* input = reinterpret_cast<const T*>(rows.input);
  const auto* mask = reinterpret_cast<const Mask*>(rows.mask.data);
  auto* output = reinterpret_cast<T*>(rows.output);
  MaskWalk walk(rows.mask, begin);
  for (int64_t row = begin; row < end; ++row, walk.advance()) {
    T* y = output + row * rows.columns;
    Number* exps = nullptr;
    if constexpr (std::is_same_v<T, Number>) {
      exps = y;
    } else {
      exps = reinterpret_cast<Number*>(scratch);
    }
    const Scores<T, Mask> scores(input + row * rows.input_stride, mask + walk.offset(),
                                 static_cast<Number>(rows.scale));
    forward_row(scores, seen_columns(row, rows.queries, rows.columns), rows.columns, exps, y);
  }
}

/// Gives what a bool mask leaves out the gradient 0.
template <typename T>
void clear_left_out(const bool* mask, T* grad_input, int64_t columns) {
  for (int64_t i = 0; i < columns; ++i) {
    if (!mask[i]) grad_input[i] = T(0);
  }
}

template <typename T>
void backward(const SoftmaxBackwardRows& rows, int64_t begin, int64_t end) {
  using Number = Compute<T>;
  const auto* grad_output = reinterpret_cast<const T*>(rows.grad_output);
  const auto* output = reinterpret_cast<const T*>(rows.output);
  const auto* mask = reinterpret_cast<const bool*>(rows.mask.data);
  auto* grad_input = reinterpret_cast<T*>(rows.grad_input);
  const Pair<Number> scale(static_cast<Number>(rows.scale));
  MaskWalk walk(rows.mask, begin);
  for (int64_t row = begin; row < end; ++row, walk.advance()) {
    const T* grad = grad_output + row * rows.grad_output_stride;
    const T* y = output + row * rows.output_stride;
    T* slope = grad_input + row * rows.columns;
    const int64_t seen = seen_columns(row, rows.queries, rows.columns);
    const auto [sum] = row_sums<T, 1>(seen, [&](int64_t i, auto count, auto& sums) {
      sums[0] = multiply_add(load_pair(grad + i, count), load_pair(y + i, count), sums[0]);
    });
    const Pair<Number> mean(static_cast<Number>(sum));
    for_each_pair<T>(seen, [&](int64_t i, auto count) {
      const auto weight = load_pair(y + i, count) * scale;
      store_pair<T>((load_pair(grad + i, count) - mean) * weight, slope + i, count);
    });
    fill(slope + seen, Number(0), rows.columns - seen);
    // Elsewhere the weight 0 has given it already.
    if (mask != nullptr && !std::isfinite(sum)) clear_left_out(mask + walk.offset(), slope, seen);
  }
}

template <typename T>
SoftmaxForward* forward_for_mask(MaskKind mask) {
  switch (mask) {
    case MaskKind::kNone:
      return forward<T, NoMask>;
    case MaskKind::kBool:
      return forward<T, bool>;
    case MaskKind::kOfDtype:
      return forward<T, T>;
    case MaskKind::kFloat:
      if constexpr (at::vec::is_reduced_floating_point_v<T>) return forward<T, float>;
      break;
  }
  return nullptr;
}

}  // namespace

SoftmaxForward* softmax_rows(c10::ScalarType dtype, MaskKind mask) {
  switch (dtype) {
    case c10::ScalarType::Float:
      return forward_for_mask<float>(mask);
    case c10::ScalarType::Double:
      return forward_for_mask<double>(mask);
    case c10::ScalarType::Half:
      return forward_for_mask<c10::Half>(mask);
    case c10::ScalarType::BFloat16:
      return forward_for_mask<c10::BFloat16>(mask);
    default:
      return nullptr;
  }
}

SoftmaxBackward* softmax_backward_rows(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::Float:
      return backward<float>;
    case c10::ScalarType::Double:
      return backward<double>;
    case c10::ScalarType::Half:
      return backward<c10::Half>;
    case c10::ScalarType::BFloat16:
      return backward<c10::BFloat16>;
    default:
      return nullptr;
  }
}

}  // namespace CPU_CAPABILITY
}  // namespace scramjet::ops
