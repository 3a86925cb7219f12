#include "ops/norm/norm_cpu_kernel.h"

#include <cmath>

#include "ops/vector_pair.h"

namespace scramjet::ops {
namespace CPU_CAPABILITY {
namespace {

template <typename T>
T* row_of(const Rows& rows, int64_t row) {
  return rows.data == nullptr ? nullptr : reinterpret_cast<T*>(rows.data) + row * rows.stride;
}

template <typename T>
void add(const T* a, const T* b, T* sum, int64_t columns) {
  for_each_pair<T>(columns, [&](int64_t i, auto count) {
    store_pair<T>(load_pair(a + i, count) + load_pair(b + i, count), sum + i, count);
  });
}

/// What a row's normalized elements are made of: (x - center) * rstd + shift. The center is the
/// mean rounded, the shift what the rounding lost: far from zero that is much of the deviation.
template <typename Number>
struct Moments {
  Number center;
  Number rstd;
  Number shift;
};

double inverse_root(double variance, double eps) { return 1 / std::sqrt(variance + eps); }

template <typename T>
Moments<Compute<T>> rms_moments(const T* x, int64_t columns, double eps) {
  const auto [squares] = row_sums<T, 1>(columns, [&](int64_t i, auto count, auto& sums) {
    const auto value = load_pair(x + i, count);
    sums[0] = multiply_add(value, value, sums[0]);
  });
  return {0, static_cast<Compute<T>>(inverse_root(squares / columns, eps)), 0};
}

template <typename T>
double mean_of(const T* x, int64_t columns) {
  const auto [sum] = row_sums<T, 1>(columns, [&](int64_t i, auto count, auto& sums) {
    sums[0] = sums[0] + load_pair(x + i, count);
  });
  return sum / columns;
}

/// The variance from the sums of (x - c) and its square, for a c near the mean: the corrected
/// two-pass algorithm (Chan, Golub, LeVeque 1983, equation 1.7).
double corrected_variance(double sum, double squares, int64_t columns) {
  const double variance = (squares - sum * sum / columns) / columns;
  return variance < 0 ? 0 : variance;  // NaN stays.
}

template <typename T>
Moments<Compute<T>> layer_moments(const T* x, int64_t columns, double eps) {
  using Number = Compute<T>;
  const auto center = static_cast<Number>(mean_of(x, columns));
  const Pair<Number> centers(center);
  const auto [sum, squares] = row_sums<T, 2>(columns, [&](int64_t i, auto count, auto& sums) {
    const auto value = masked(load_pair(x + i, count) - centers, count);
    sums[0] = sums[0] + value;
    sums[1] = multiply_add(value, value, sums[1]);
  });
  const double rstd = inverse_root(corrected_variance(sum, squares, columns), eps);
  return {center, static_cast<Number>(rstd), static_cast<Number>(-sum / columns * rstd)};
}

/// A row's normalized elements.
template <typename Number, bool kCentered>
class Normalize {
 public:
  explicit Normalize(const Moments<Number>& moments)
      : center_(moments.center), rstd_(moments.rstd), shift_(moments.shift) {}

  C10_ALWAYS_INLINE Pair<Number> operator()(const Pair<Number>& x) const {
    if constexpr (kCentered) return multiply_add(x - center_, rstd_, shift_);
    return x * rstd_;
  }

 private:
  Pair<Number> center_;
  Pair<Number> rstd_;
  Pair<Number> shift_;
};

template <typename T, typename Parameter, bool kCentered>
void forward(const NormRows& rows, int64_t begin, int64_t end) {
  using Number = Compute<T>;
  const auto* weight = reinterpret_cast<const Parameter*>(rows.weight);
  const auto* bias = reinterpret_cast<const Parameter*>(rows.bias);
  for (int64_t row = begin; row < end; ++row) {
    const T* x = row_of<const T>(rows.input, row);
    if (rows.residual.data != nullptr) {
      T* sum = row_of<T>(rows.sum, row);
      add(x, row_of<const T>(rows.residual, row), sum, rows.columns);
      x = sum;
    }
    T* y = row_of<T>(rows.output, row);
    const auto moments = kCentered ? layer_moments(x, rows.columns, rows.eps)
                                   : rms_moments(x, rows.columns, rows.eps);
    const Normalize<Number, kCentered> normalize(moments);
    for_each_pair<T>(rows.columns, [&](int64_t i, auto count) {
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
  const auto grad = load_pair(grad_output + i, count);
  return weight == nullptr ? grad : grad * load_pair(weight + i, count);
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
  const auto center = static_cast<Number>(mean_of(x, columns));
  const Pair<Number> centers(center);
  const auto [sum, squares, grads, products] =
      row_sums<T, 4>(columns, [&](int64_t i, auto count, auto& sums) {
        const auto value = masked(load_pair(x + i, count) - centers, count);
        const auto grad = weighted(grad_output, weight, i, count);
        sums[0] = sums[0] + value;
        sums[1] = multiply_add(value, value, sums[1]);
        sums[2] = sums[2] + grad;
        sums[3] = multiply_add(grad, value, sums[3]);
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
  const auto* weight = reinterpret_cast<const Parameter*>(rows.weight);
  auto* grad_weight = reinterpret_cast<Number*>(rows.grad_weight);
  auto* grad_bias = reinterpret_cast<Number*>(rows.grad_bias);
  for (int64_t row = begin; row < end; ++row) {
    const T* x = row_of<const T>(rows.input, row);
    const T* grad_output = row_of<const T>(rows.grad_output, row);
    const T* grad_sum = row_of<const T>(rows.grad_sum, row);
    T* grad_input = row_of<T>(rows.grad_input, row);
    const auto found = kCentered
                           ? layer_backward_moments(x, grad_output, weight, rows.columns, rows.eps)
                           : rms_backward_moments(x, grad_output, weight, rows.columns, rows.eps);
    const Normalize<Number, kCentered> normalize(found.moments);
    const Pair<Number> rstd(found.moments.rstd);
    const Pair<Number> projection(-found.mean_product);
    const Pair<Number> mean_grad(found.mean_grad);
    for_each_pair<T>(rows.columns, [&](int64_t i, auto count) {
      const auto value = normalize(load_pair(x + i, count));
      const auto grad = load_pair(grad_output + i, count);
      auto slope = weight == nullptr ? grad : grad * load_pair(weight + i, count);
      if constexpr (kCentered) slope = slope - mean_grad;
      slope = multiply_add(value, projection, slope) * rstd;
      if (grad_sum != nullptr) slope = slope + load_pair(grad_sum + i, count);
      store_pair<T>(slope, grad_input + i, count);
      if (grad_weight != nullptr) {
        store_pair<Number>(multiply_add(grad, value, load_pair<Number>(grad_weight + i, count)),
                           grad_weight + i, count);
      }
      if (grad_bias != nullptr) {
        store_pair<Number>(grad + load_pair<Number>(grad_bias + i, count), grad_bias + i, count);
      }
    });
  }
}

template <bool kCentered>
struct Forward {
  template <typename T, typename Parameter>
  static constexpr NormForward* kernel = forward<T, Parameter, kCentered>;
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
