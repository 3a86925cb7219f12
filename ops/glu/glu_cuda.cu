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

template <typename T>
__device__ ValueAndSlope<T> sigmoid_and_slope(T x) {
  const T tail = exponential(-(x < T(0) ? -x : x));
  const T upper = T(1) / (T(1) + tail);
  const T lower = tail * upper;
  return {x < T(0) ? lower : upper, upper * lower};
}

struct Silu {
  template <typename T>
  __device__ static T value(T x) {
    return x / (T(1) + exponential(-x));
  }

  template <typename T>
  __device__ static ValueAndSlope<T> value_and_slope(T x) {
    const ValueAndSlope<T> sigmoid = sigmoid_and_slope(x);
    return {x * sigmoid.value, sigmoid.value + x * sigmoid.slope};
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
    return x * twice_slope<T>() * (T(1) + cubic<T>() * x * x);
  }

  template <typename T>
  __device__ static T value(T x) {
    return x / (T(1) + exponential(-twice_u(x)));
  }

  template <typename T>
  __device__ static ValueAndSlope<T> value_and_slope(T x) {
    const ValueAndSlope<T> sigmoid = sigmoid_and_slope(twice_u(x));
    const T twice_u_slope = twice_slope<T>() * (T(1) + T(3) * cubic<T>() * x * x);
    return {x * sigmoid.value, sigmoid.value + x * sigmoid.slope * twice_u_slope};
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
