#include "ops/norm/norm_cpu_kernel.h"

#include <array>
#include <type_traits>

#include "ops/norm/norm_moments.h"
#include "ops/vector_pair.h"

namespace scramjet::ops {
namespace CPU_CAPABILITY {
namespace {

template <typename T>
T* row_of(const Rows& rows, int64_t row) {
  return rows.data == nullptr ? nullptr : reinterpret_cast<T*>(rows.data) + row * rows.stride;
}

/// Rows that are walked side by side, so that what all share is loaded once; one by one where they
/// would leave the cache, or are so short that walking the memory in one direction gains more.
constexpr int kRowsAtOnce = 4;
constexpr int64_t kLongRow = 16384;
constexpr int64_t kShortRow = 1024;

/// Calls body(row, distance, count) for all rows from `begin` to `end`: for `count`, a constant, of
/// them, `distance` apart. They are far apart, so that the memory of each is walked in one
/// direction: writing turn by turn to neighbouring short rows takes twice the time.
template <typename T, typename Body>
void for_row_blocks(int64_t begin, int64_t end, int64_t columns, const Body& body) {
  const bool short_row = columns < kShortRow && !at::vec::is_reduced_floating_point_v<T>;
  const bool at_once = !short_row && columns <= kLongRow;
  const int64_t distance = at_once ? (end - begin) / kRowsAtOnce : 0;
  for (int64_t row = begin; row < begin + distance; ++row) {
    body(row, distance, std::integral_constant<int, kRowsAtOnce>());
  }
  for (int64_t row = begin + kRowsAtOnce * distance; row < end; ++row) {
    body(row, 0, std::integral_constant<int, 1>());
  }
}

/// A weight's elements, or ones.
template <typename Parameter, typename Count>
C10_ALWAYS_INLINE Pair<Compute<Parameter>> load_weight(const Parameter* weight, int64_t i,
                                                       Count count) {
  if (weight == nullptr) return Pair<Compute<Parameter>>(1);
  return load_pair(weight + i, count);
}

template <typename T>
void add(const T* a, const T* b, T* sum, int64_t columns) {
  for_each_pair<T>(columns, [&](int64_t i, auto count) {
    store_pair<T>(load_pair(a + i, count) + load_pair(b + i, count), sum + i, count);
  });
}

/// What is normalized: the input, or its sum with the residual, which is made here.
template <typename T>
const T* normalized_row(const NormRows& rows, int64_t row) {
  const T* x = row_of<const T>(rows.input, row);
  if (rows.residual.data == nullptr) return x;
  T* sum = row_of<T>(rows.sum, row);
  add(x, row_of<const T>(rows.residual, row), sum, rows.columns);
  return sum;
}

template <typename T, typename Parameter, bool kCentered>
void forward(const NormRows& rows, int64_t begin, int64_t end) {
  using Number = Compute<T>;
  const int64_t columns = rows.columns;
  const auto* weight = reinterpret_cast<const Parameter*>(rows.weight);
  const auto* bias = reinterpret_cast<const Parameter*>(rows.bias);
  for (int64_t row = begin; row < end; ++row) {
    const T* x = normalized_row<T>(rows, row);
    T* y = row_of<T>(rows.output, row);
    const Normalize<Number, kCentered> normalize(kCentered ? layer_moments(x, columns, rows.eps)
                                                           : rms_moments(x, columns, rows.eps));
    for_each_pair<T>(columns, [&](int64_t i, auto count) {
      auto value = normalize(load_pair(x + i, count));
      if (weight != nullptr && bias != nullptr) {
        value = multiply_add(value, load_pair(weight + i, count), load_pair(bias + i, count));
      } else if (weight != nullptr) {
        value = value * load_pair(weight + i, count);
      } else if (bias != nullptr) {
        value = value + load_pair(bias + i, count);
      }
      store_pair<T>(value, y + i, count);
    });
  }
}

/// Half and bfloat16 parameters are made float once where many short rows take them.
template <typename T, typename Parameter, bool kCentered>
void forward_with_wide_parameters(const NormRows& rows, int64_t begin, int64_t end) {
  constexpr int64_t kColumns = 1024;
  constexpr int64_t kRows = 8;
  if (rows.columns > kColumns || end - begin < kRows) {
    return forward<T, Parameter, kCentered>(rows, begin, end);
  }
  std::array<float, kColumns> weight;
  std::array<float, kColumns> bias;
  const auto widen = [&](const char*& data, float* wide) {
    if (data == nullptr) return;
    const auto* narrow = reinterpret_cast<const Parameter*>(data);
    for_each_pair<Parameter>(rows.columns, [&](int64_t i, auto count) {
      store_pair<float>(load_pair(narrow + i, count), wide + i, count);
    });
    data = reinterpret_cast<const char*>(wide);
  };
  NormRows wide = rows;
  widen(wide.weight, weight.data());
  widen(wide.bias, bias.data());
  forward<T, float, kCentered>(wide, begin, end);
}

template <typename T, typename Parameter, bool kCentered>
constexpr NormForward* forward_kernel() {
  if constexpr (at::vec::is_reduced_floating_point_v<Parameter>) {
    return forward_with_wide_parameters<T, Parameter, kCentered>;
  } else {
    return forward<T, Parameter, kCentered>;
  }
}

/// With g = grad_output * weight and the normalized n, the gradient of a row's input is
/// rstd * (g - mean_product * n - mean_grad): the means of g n and of g, the latter only where the
/// mean is taken off.
template <typename Number>
struct BackwardMoments {
  Moments<Number> moments;
  Number mean_product;
  Number mean_grad;
};

/// grad_output * weight.
template <typename T, typename Parameter, typename Count>
C10_ALWAYS_INLINE Pair<Compute<T>> weighted(const T* grad_output, const Parameter* weight,
                                            int64_t i, Count count) {
  return load_pair(grad_output + i, count) * load_weight(weight, i, count);
}

template <typename T, typename Parameter>
BackwardMoments<Compute<T>> rms_backward_moments(const T* x, const T* grad_output,
                                                 const Parameter* weight, int64_t columns,
                                                 double eps) {
  using Number = Compute<T>;
  const auto [squares, products] = row_sums<T, 2>(columns, [&](int64_t i, auto count, auto& sums) {
    const auto value = load_pair(x + i, count);
    sums[0] = multiply_add(value, value, sums[0]);
    sums[1] = multiply_add(weighted(grad_output, weight, i, count), value, sums[1]);
  });
  const double rstd = inverse_root(squares / columns, eps);
  return {{0, static_cast<Number>(rstd), 0}, static_cast<Number>(products / columns * rstd), 0};
}

template <typename T, typename Parameter>
BackwardMoments<Compute<T>> layer_backward_moments(const T* x, const T* grad_output,
                                                   const Parameter* weight, int64_t columns,
                                                   double eps) {
  using Number = Compute<T>;
  Number center;
  const auto [sum, squares, grads, products] =
      sums_near_mean(x, columns, center, [&](const Pair<Number>& centers) {
        return row_sums<T, 4>(columns, [&](int64_t i, auto count, auto& sums) {
          const auto value = masked(load_pair(x + i, count) - centers, count);
          const auto grad = weighted(grad_output, weight, i, count);
          sums[0] = sums[0] + value;
          sums[1] = multiply_add(value, value, sums[1]);
          sums[2] = sums[2] + grad;
          sums[3] = multiply_add(grad, value, sums[3]);
        });
      });
  const double rstd = inverse_root(corrected_variance(sum, squares, columns), eps);
  const double offset = sum / columns;  // Of the mean from the center.
  return {{center, static_cast<Number>(rstd), static_cast<Number>(-offset * rstd)},
          static_cast<Number>((products - offset * grads) / columns * rstd),
          static_cast<Number>(grads / columns)};
}

template <typename T, typename Parameter, bool kCentered>
void backward(const NormBackwardRows& rows, int64_t begin, int64_t end) {
  using Number = Compute<T>;
  const int64_t columns = rows.columns;
  const auto* weight = reinterpret_cast<const Parameter*>(rows.weight);
  auto* grad_weight = reinterpret_cast<Number*>(rows.grad_weight);
  auto* grad_bias = reinterpret_cast<Number*>(rows.grad_bias);
  const bool has_grad_sum = rows.grad_sum.data != nullptr;
  for_row_blocks<T>(begin, end, columns, [&](int64_t first, int64_t distance, auto block) {
    constexpr int kCount = decltype(block)::value;
    std::array<const T*, kCount> x;
    std::array<const T*, kCount> grad_output;
    std::array<const T*, kCount> grad_sum;
    std::array<T*, kCount> grad_input;
    std::array<BackwardMoments<Number>, kCount> found;
    for (int k = 0; k < kCount; ++k) {
      const int64_t row = first + k * distance;
      x[k] = row_of<const T>(rows.input, row);
      grad_output[k] = row_of<const T>(rows.grad_output, row);
      grad_sum[k] = row_of<const T>(rows.grad_sum, row);
      grad_input[k] = row_of<T>(rows.grad_input, row);
      found[k] = kCentered ? layer_backward_moments(x[k], grad_output[k], weight, columns, rows.eps)
                           : rms_backward_moments(x[k], grad_output[k], weight, columns, rows.eps);
    }
    for_each_pair<T>(columns, [&](int64_t i, auto count) {
      const Pair<Number> factor = load_weight(weight, i, count);
      Pair<Number> weight_sum;
      Pair<Number> bias_sum;
#pragma GCC unroll 4
      for (int k = 0; k < kCount; ++k) {
        const Normalize<Number, kCentered> normalize(found[k].moments);
        const auto value = normalize(load_pair(x[k] + i, count));
        const auto grad = load_pair(grad_output[k] + i, count);
        weight_sum = multiply_add(grad, value, weight_sum);
        bias_sum = bias_sum + grad;
        auto slope = grad * factor;
        if constexpr (kCentered) slope = slope - Pair<Number>(found[k].mean_grad);
        slope = multiply_add(value, Pair<Number>(-found[k].mean_product), slope) *
                Pair<Number>(found[k].moments.rstd);
        if (has_grad_sum) slope = slope + load_pair(grad_sum[k] + i, count);
        store_pair<T>(slope, grad_input[k] + i, count);
      }
      if (grad_weight != nullptr) {
        store_pair<Number>(weight_sum + load_pair<Number>(grad_weight + i, count), grad_weight + i,
                           count);
      }
      if (grad_bias != nullptr) {
        store_pair<Number>(bias_sum + load_pair<Number>(grad_bias + i, count), grad_bias + i,
                           count);
      }
    });
  });
}

template <bool kCentered>
struct Forward {
  template <typename T, typename Parameter>
  static constexpr NormForward* kernel = forward_kernel<T, Parameter, kCentered>();
};

template <bool kCentered>
struct Backward {
  template <typename T, typename Parameter>
  static constexpr NormBackward* kernel = backward<T, Parameter, kCentered>;
};

template <typename Direction, typename T>
auto kernel_for_parameters(c10::ScalarType parameters) {
  auto* const kernel = Direction::template kernel<T, T>;
  if constexpr (at::vec::is_reduced_floating_point_v<T>) {
    if (parameters == c10::ScalarType::Float) return Direction::template kernel<T, float>;
  }
  return parameters == c10::CppTypeToScalarType<T>::value ? kernel : nullptr;
}

template <typename Direction>
auto kernel_for(c10::ScalarType dtype, c10::ScalarType parameters)
    -> decltype(kernel_for_parameters<Direction, float>(parameters)) {
  switch (dtype) {
    case c10::ScalarType::Float:
      return kernel_for_parameters<Direction, float>(parameters);
    case c10::ScalarType::Double:
      return kernel_for_parameters<Direction, double>(parameters);
    case c10::ScalarType::Half:
      return kernel_for_parameters<Direction, c10::Half>(parameters);
    case c10::ScalarType::BFloat16:
      return kernel_for_parameters<Direction, c10::BFloat16>(parameters);
    default:
      return nullptr;
  }
}

}  // namespace

NormForward* rms_norm_rows(c10::ScalarType dtype, c10::ScalarType parameters) {
  return kernel_for<Forward<false>>(dtype, parameters);
}

NormForward* layer_norm_rows(c10::ScalarType dtype, c10::ScalarType parameters) {
  return kernel_for<Forward<true>>(dtype, parameters);
}

NormBackward* rms_norm_backward_rows(c10::ScalarType dtype, c10::ScalarType parameters) {
  return kernel_for<Backward<false>>(dtype, parameters);
}

NormBackward* layer_norm_backward_rows(c10::ScalarType dtype, c10::ScalarType parameters) {
  return kernel_for<Backward<true>>(dtype, parameters);
}

}  // namespace CPU_CAPABILITY
}  // namespace scramjet::ops
