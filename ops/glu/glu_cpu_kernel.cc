#include "ops/glu/glu_cpu_kernel.h"

#include <array>
#include <cmath>

#include "ops/cpu_loops.h"
#include "ops/vector_exp.h"
#include "ops/vector_normal.h"

namespace scramjet::ops {
namespace CPU_CAPABILITY {
namespace {

/// An activation's value, and its derivative with respect to its argument.
template <typename Vec>
struct ValueAndSlope {
  Vec value;
  Vec slope;
};

/// sigmoid(x) and its derivative, sigmoid(x) (1 - sigmoid(x)), without the difference: next to 1
/// that has lost every digit, and gelu's derivative multiplies it by a cubic.
template <typename Vec>
ValueAndSlope<Vec> sigmoid_and_slope(const Vec& x) {
  const Vec tail = vector_exp(x.abs().neg());
  const Vec upper = (Vec(1) + tail).reciprocal();
  const Vec lower = tail * upper;
  return {Vec::blendv(lower, upper, x >= Vec(0)), upper * lower};
}

struct Silu {
  template <typename Vec>
  static Vec value(const Vec& x) {
    return x / (Vec(1) + vector_exp(x.neg()));
  }

  template <typename Vec>
  static ValueAndSlope<Vec> value_and_slope(const Vec& x) {
    const auto [sigmoid, slope] = sigmoid_and_slope(x);
    return {x * sigmoid, sigmoid + x * slope};
  }
};

struct Gelu {
  template <typename Vec>
  static Vec value(const Vec& x) {
    return x * vector_normal(x).cdf;
  }

  template <typename Vec>
  static ValueAndSlope<Vec> value_and_slope(const Vec& x) {
    const auto [cdf, pdf] = vector_normal(x);
    return {x * cdf, cdf + x * pdf};
  }
};

/// (1 + tanh(u)) / 2 is sigmoid(2 u), which needs one exp and keeps the digits of the lower tail.
struct GeluTanh {
  static constexpr double kCubic = 0.044715;
  static constexpr double kTwiceSlope = 2 * M_SQRT2 * M_2_SQRTPI / 2;  // 2 sqrt(2 / pi)

  template <typename Vec>
  static Vec twice_u(const Vec& x) {
    return x * Vec(kTwiceSlope) * (Vec(1) + Vec(kCubic) * x * x);
  }

  template <typename Vec>
  static Vec value(const Vec& x) {
    return x / (Vec(1) + vector_exp(twice_u(x).neg()));
  }

  template <typename Vec>
  static ValueAndSlope<Vec> value_and_slope(const Vec& x) {
    const auto [sigmoid, slope] = sigmoid_and_slope(twice_u(x));
    const Vec twice_u_slope = Vec(kTwiceSlope) * (Vec(1) + Vec(3 * kCubic) * x * x);
    return {x * sigmoid, sigmoid + x * slope * twice_u_slope};
  }
};

template <typename Activation>
struct Gated {
  template <typename Vec>
  Vec operator()(const Vec& gate, const Vec& up) const {
    return Activation::value(gate) * up;
  }
};

template <typename Activation>
struct GatedBackward {
  template <typename Vec>
  std::array<Vec, 2> operator()(const Vec& grad_output, const Vec& gate, const Vec& up) const {
    const auto [value, slope] = Activation::value_and_slope(gate);
    return {grad_output * up * slope, grad_output * value};
  }
};

template <typename Activation>
ElementwiseLoop* forward_loop(c10::ScalarType dtype) {
  return elementwise_loop_for<2, 1, Gated<Activation>>(dtype);
}

template <typename Activation>
ElementwiseLoop* backward_loop(c10::ScalarType dtype) {
  return elementwise_loop_for<3, 2, GatedBackward<Activation>>(dtype);
}

}  // namespace

ElementwiseLoop* silu_mul_loop(c10::ScalarType dtype) { return forward_loop<Silu>(dtype); }
ElementwiseLoop* gelu_mul_loop(c10::ScalarType dtype) { return forward_loop<Gelu>(dtype); }
ElementwiseLoop* gelu_tanh_mul_loop(c10::ScalarType dtype) { return forward_loop<GeluTanh>(dtype); }

ElementwiseLoop* silu_mul_backward_loop(c10::ScalarType dtype) {
  return backward_loop<Silu>(dtype);
}
ElementwiseLoop* gelu_mul_backward_loop(c10::ScalarType dtype) {
  return backward_loop<Gelu>(dtype);
}
ElementwiseLoop* gelu_tanh_mul_backward_loop(c10::ScalarType dtype) {
  return backward_loop<GeluTanh>(dtype);
}

}  // namespace CPU_CAPABILITY
}  // namespace scramjet::ops
