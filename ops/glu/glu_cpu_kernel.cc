#include "ops/glu/glu_cpu_kernel.h"

#include <array>
#include <cmath>
#include <limits>

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

/// x sigmoid(z) and its derivative with respect to x, for a z of x's sign with the derivative
/// `z_slope`.
///
/// Both come from 1 - sigmoid(|z|), at most 1/2: no difference of it loses digits, and its own
/// roundings count for little next to max(x, 0).
template <typename Stored, typename Vec>
struct TimesSigmoid {
  Vec x;
  Vec complement;

  TimesSigmoid(const Vec& x, const Vec& z) : x(x) {
    const Vec tail = vector_exp<Stored>(z.abs().neg());
    complement = tail / (Vec(1) + tail);
  }

  Vec value() const {
    using Number = typename Vec::value_type;
    // An infinite x times its complement, 0, would be NaN; -infinity times 0 is NaN in eager too.
    const Vec finite = at::vec::minimum(x, Vec(std::numeric_limits<Number>::max()));
    return at::vec::maximum(x, Vec(0)) - finite.abs() * complement;
  }

  Vec slope(const Vec& z_slope) const {
    const Vec sigmoid = Vec::blendv(complement, Vec(1) - complement, x >= Vec(0));
    const Vec sigmoid_slope = complement * (Vec(1) - complement);
    return at::vec::fmadd(x * sigmoid_slope, z_slope, sigmoid);
  }
};

template <typename Stored>
struct Silu {
  template <typename Vec>
  static Vec value(const Vec& x) {
    return TimesSigmoid<Stored, Vec>(x, x).value();
  }

  template <typename Vec>
  static ValueAndSlope<Vec> value_and_slope(const Vec& x) {
    const TimesSigmoid<Stored, Vec> silu(x, x);
    return {silu.value(), silu.slope(Vec(1))};
  }
};

template <typename Stored>
struct Gelu {
  template <typename Vec>
  static Vec value(const Vec& x) {
    return x * vector_normal<Stored>(x).cdf;
  }

  template <typename Vec>
  static ValueAndSlope<Vec> value_and_slope(const Vec& x) {
    const auto [cdf, pdf] = vector_normal<Stored>(x);
    return {x * cdf, cdf + x * pdf};
  }
};

/// (1 + tanh(u)) / 2 is sigmoid(2 u), which needs one exp and keeps the digits of the lower tail.
template <typename Stored>
struct GeluTanh {
  static constexpr double kCubic = 0.044715;
  static constexpr double kTwiceSlope = 2 * M_SQRT2 * M_2_SQRTPI / 2;  // 2 sqrt(2 / pi)

  template <typename Vec>
  static Vec twice_u(const Vec& x) {
    return x * at::vec::fmadd(x * x, Vec(kTwiceSlope * kCubic), Vec(kTwiceSlope));
  }

  template <typename Vec>
  static Vec value(const Vec& x) {
    return TimesSigmoid<Stored, Vec>(x, twice_u(x)).value();
  }

  template <typename Vec>
  static ValueAndSlope<Vec> value_and_slope(const Vec& x) {
    const TimesSigmoid<Stored, Vec> gelu(x, twice_u(x));
    const Vec z_slope = at::vec::fmadd(x * x, Vec(3 * kTwiceSlope * kCubic), Vec(kTwiceSlope));
    return {gelu.value(), gelu.slope(z_slope)};
  }
};

template <template <typename> typename Activation>
struct Gated {
  template <typename Stored>
  struct Forward {
    template <typename Vec>
    Vec operator()(const Vec& gate, const Vec& up) const {
      return Activation<Stored>::value(gate) * up;
    }
  };

  template <typename Stored>
  struct Backward {
    template <typename Vec>
    std::array<Vec, 2> operator()(const Vec& grad_output, const Vec& gate, const Vec& up) const {
      const auto [value, slope] = Activation<Stored>::value_and_slope(gate);
      return {grad_output * up * slope, grad_output * value};
    }
  };
};

template <template <typename> typename Activation>
ElementwiseLoop* forward_loop(c10::ScalarType dtype) {
  return elementwise_loop_for<2, 1, Gated<Activation>::template Forward>(dtype);
}

template <template <typename> typename Activation>
ElementwiseLoop* backward_loop(c10::ScalarType dtype) {
  return elementwise_loop_for<3, 2, Gated<Activation>::template Backward>(dtype);
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
