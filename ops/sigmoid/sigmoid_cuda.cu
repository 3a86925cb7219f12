#include "ops/elementwise_kernel.cuh"
#include "ops/sigmoid/sigmoid_cuda_kernel.h"

// The steps are those of ATen's sigmoid_kernel_cuda (native/cuda/UnaryOpsKernel.cu's family) and
// sigmoid_backward_kernel_cuda.
namespace scramjet::ops {
namespace {

struct Sigmoid {
  __device__ float operator()(float x) const { return 1.0f / (1.0f + ::expf(-x)); }
  __device__ double operator()(double x) const { return 1.0 / (1.0 + ::exp(-x)); }
};

struct SigmoidBackward {
  template <typename T>
  __device__ T operator()(T grad_output, T output) const {
    return grad_output * (T(1) - output) * output;
  }
};

}  // namespace

void launch_sigmoid(const ElementwiseLaunch& launch) { launch_elementwise<1, 1, Sigmoid>(launch); }

void launch_sigmoid_backward(const ElementwiseLaunch& launch) {
  launch_elementwise<2, 1, SigmoidBackward>(launch);
}

}  // namespace scramjet::ops
