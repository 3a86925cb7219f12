#include "ops/elementwise_kernel.cuh"
#include "ops/glu/glu_cuda_kernel.h"

// The formulas are those of glu_cpu_kernel.cc; the tail of the normal distribution is CUDA's own.
namespace scramjet::ops {
namespace {

__device__ float exponential(float x) { return ::expf(x); }
__device__ double exponential(double x) { return ::exp(x); }
__device__ float normal_cdf(float x) { return ::normcdff(x); }
__device__ double normal_cdf(double x) { return ::normcdf(x); }

/// An activation's value, and its derivative with respect to its argument.
template <typename T>
struct ValueAndSlope {
  T value;
  T slope;
};

/// x sigmoid(z) and its derivative, as in glu_cpu_kernel.cc.
template <typename T>
struct TimesSigmoid {
  T x;
  T complement;

  __device__ TimesSigmoid(T x, T z) : x(x) {
    const T tail = exponential(-(z < T(0) ? -z : z));
    complement = tail / (T(1) + tail);
  }

  __device__ T value() const {
    // An infinite x times 0 would be NaN.
    if (x > T(0)) return complement == T(0) ? x : x - x * complement;
    return x * complement;
  }

  __device__ T slope(T z_slope) const {
    const T sigmoid = x >= T(0) ? T(1) - complement : complement;
    return sigmoid + x * (complement * (T(1) - complement)) * z_slope;
  }
};

struct Silu {
  template <typename T>
  __device__ static T value(T x) {
    return TimesSigmoid<T>(x, x).value();
  }

  template <typename T>
  __device__ static ValueAndSlope<T> value_and_slope(T x) {
    const TimesSigmoid<T> silu(x, x);
    return {silu.value(), silu.slope(T(1))};
  }
};

struct Gelu {
  template <typename T>
  __device__ static T value(T x) {
    return x * normal_cdf(x);
  }

  template <typename T>
  __device__ static ValueAndSlope<T> value_and_slope(T x) {
    const T inverse_sqrt_2pi = T(0.398942280401432677939946059934);
    const T cdf = normal_cdf(x);
    return {x * cdf, cdf + x * (inverse_sqrt_2pi * exponential(x * x * T(-0.5)))};
  }
};

struct GeluTanh {
  template <typename T>
  __device__ static T twice_slope() {
    return T(1.595769121605730711759);  // 2 sqrt(2 / pi)
  }

  template <typename T>
  __device__ static T cubic() {
    return T(0.044715);
  }

  template <typename T>
  __device__ static T twice_u(T x) {
    return x * (twice_slope<T>() + twice_slope<T>() * cubic<T>() * x * x);
  }

  template <typename T>
  __device__ static T value(T x) {
    return TimesSigmoid<T>(x, twice_u(x)).value();
  }

  template <typename T>
  __device__ static ValueAndSlope<T> value_and_slope(T x) {
    const TimesSigmoid<T> gelu(x, twice_u(x));
    const T z_slope = twice_slope<T>() + T(3) * twice_slope<T>() * cubic<T>() * x * x;
    return {gelu.value(), gelu.slope(z_slope)};
  }
};

template <typename Activation>
struct Gated {
  template <typename T>
  __device__ T operator()(T gate, T up) const {
    return Activation::value(gate) * up;
  }
};

template <typename Activation>
struct GatedBackward {
  template <typename T>
  __device__ Results<T, 2> operator()(T grad_output, T gate, T up) const {
    const ValueAndSlope<T> activation = Activation::value_and_slope(gate);
    return {{grad_output * up * activation.slope, grad_output * activation.value}};
  }
};

template <typename Activation>
void forward(const ElementwiseLaunch& launch) {
  launch_elementwise<2, 1, Gated<Activation>>(launch);
}

template <typename Activation>
void backward(const ElementwiseLaunch& launch) {
  launch_elementwise<3, 2, GatedBackward<Activation>>(launch);
}

}  // namespace

void launch_silu_mul(const ElementwiseLaunch& launch) { forward<Silu>(launch); }
void launch_gelu_mul(const ElementwiseLaunch& launch) { forward<Gelu>(launch); }
void launch_gelu_tanh_mul(const ElementwiseLaunch& launch) { forward<GeluTanh>(launch); }

void launch_silu_mul_backward(const ElementwiseLaunch& launch) { backward<Silu>(launch); }
void launch_gelu_mul_backward(const ElementwiseLaunch& launch) { backward<Gelu>(launch); }
void launch_gelu_tanh_mul_backward(const ElementwiseLaunch& launch) { backward<GeluTanh>(launch); }

}  // namespace scramjet::ops
