#include "ops/sigmoid/sigmoid_cpu_kernel.h"

#include "ops/cpu_loops.h"
#include "ops/vector_exp.h"

// The steps and their order are those of ATen's sigmoid_kernel (native/cpu/UnaryOpsKernel.cpp) and
// sigmoid_backward_kernel (native/cpu/BinaryOpsKernel.cpp), so vectors agree to the bit.
namespace scramjet::ops {
namespace CPU_CAPABILITY {
namespace {

template <typename Stored>
struct Sigmoid {
  template <typename Vec>
  Vec operator()(const Vec& x) const {
    return (Vec(1) + vector_exp<float>(x.neg())).reciprocal();
  }
};

template <typename Stored>
struct SigmoidBackward {
  template <typename Vec>
  Vec operator()(const Vec& grad_output, const Vec& output) const {
    return grad_output * (Vec(1) - output) * output;
  }
};

}  // namespace

ElementwiseLoop* sigmoid_loop(c10::ScalarType dtype) {
  return elementwise_loop_for<1, 1, Sigmoid>(dtype);
}

ElementwiseLoop* sigmoid_backward_loop(c10::ScalarType dtype) {
  return elementwise_loop_for<2, 1, SigmoidBackward>(dtype);
}

}  // namespace CPU_CAPABILITY
}  // namespace scramjet::ops
