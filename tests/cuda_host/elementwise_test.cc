#include <ATen/TensorIterator.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <limits>
#include <ostream>
#include <utility>
#include <vector>

#include "ops/glu/glu_cuda_kernel.h"
#include "ops/sigmoid/sigmoid_cuda_kernel.h"
#include "tests/cuda_host/grid_execution.h"

// The kernels of ops/elementwise_kernel.cuh, run on the CPU for each operator that has one, against
// ATen's functions.
namespace scramjet::ops {
namespace {

using Tensors = std::vector<at::Tensor>;

at::Tensor eager_sigmoid(const Tensors& x) { return at::sigmoid(x[0]); }
at::Tensor eager_silu_mul(const Tensors& x) { return at::silu(x[0]).mul(x[1]); }
at::Tensor eager_gelu_mul(const Tensors& x) { return at::gelu(x[0]).mul(x[1]); }
at::Tensor eager_gelu_tanh_mul(const Tensors& x) { return at::gelu(x[0], "tanh").mul(x[1]); }

struct Case {
  const char* name;
  size_t inputs;
  at::Tensor (*eager)(const Tensors&);
  void (*forward)(const ElementwiseLaunch&);
  void (*backward)(const ElementwiseLaunch&);
  bool backward_takes_output;
};

const Case kCases[] = {
    {"sigmoid", 1, eager_sigmoid, launch_sigmoid, launch_sigmoid_backward, true},
    {"silu_mul", 2, eager_silu_mul, launch_silu_mul, launch_silu_mul_backward, false},
    {"gelu_mul", 2, eager_gelu_mul, launch_gelu_mul, launch_gelu_mul_backward, false},
    {"gelu_tanh_mul", 2, eager_gelu_tanh_mul, launch_gelu_tanh_mul, launch_gelu_tanh_mul_backward,
     false},
};

std::ostream& operator<<(std::ostream& out, const Case& op) { return out << op.name; }

constexpr at::ScalarType kFloating[] = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16};

CudaDtype cuda_dtype(at::ScalarType dtype) {
  if (dtype == at::kDouble) return CudaDtype::kDouble;
  if (dtype == at::kHalf) return CudaDtype::kHalf;
  return dtype == at::kBFloat16 ? CudaDtype::kBFloat16 : CudaDtype::kFloat;
}

/// As elementwise_cuda.cc launches over `results`, undefined ones new, and `inputs`.
void run(void (*launch)(const ElementwiseLaunch&), Tensors& results, const Tensors& inputs) {
  at::TensorIteratorConfig config;
  for (const at::Tensor& result : results) config.add_owned_output(result);
  for (const at::Tensor& input : inputs) config.add_owned_const_input(input);
  at::TensorIterator iter = config.build();
  ElementwiseLaunch arguments;
  arguments.dtype = cuda_dtype(iter.dtype(0));
  arguments.numel = iter.numel();
  arguments.contiguous = iter.is_contiguous();
  arguments.dims = iter.ndim();
  for (int d = 0; d < iter.ndim(); ++d) arguments.sizes[d] = iter.shape()[d];
  for (int k = 0; k < iter.ntensors(); ++k) {
    arguments.data[k] = static_cast<char*>(iter.data_ptr(k));
    for (int d = 0; d < iter.ndim(); ++d) arguments.strides[k][d] = iter.strides(k)[d];
  }
  launch(arguments);
  for (size_t k = 0; k < results.size(); ++k) results[k] = iter.output(static_cast<int64_t>(k));
}

/// The output, then the gradient of each input.
Tensors kernels(const Case& op, const Tensors& inputs, const at::Tensor& grad) {
  Tensors results(1);
  run(op.forward, results, inputs);
  Tensors operands;
  operands.push_back(grad);
  for (const at::Tensor& x : op.backward_takes_output ? results : inputs) operands.push_back(x);
  Tensors gradients(op.inputs);
  run(op.backward, gradients, operands);
  for (const at::Tensor& gradient : gradients) results.push_back(gradient);
  return results;
}

Tensors eager(const Case& op, const Tensors& inputs, const at::Tensor& grad, at::ScalarType dtype) {
  Tensors leaves;
  for (const at::Tensor& x : inputs) {
    leaves.push_back(x.to(dtype, /*non_blocking=*/false, /*copy=*/true).requires_grad_());
  }
  Tensors results(1, op.eager(leaves));
  const Tensors gradients = torch::autograd::grad(results, leaves, {grad.to(dtype)});
  for (const at::Tensor& gradient : gradients) results.push_back(gradient);
  return results;
}

double tolerance(at::ScalarType dtype) {
  // sigmoid's backward takes an output that is rounded already.
  if (dtype == at::kHalf) return 4e-3;
  if (dtype == at::kBFloat16) return 4e-2;
  return dtype == at::kFloat ? 2e-6 : 1e-12;
}

void expect_close_to_double(const Case& op, const Tensors& inputs, const at::Tensor& grad) {
  const at::ScalarType dtype = grad.scalar_type();
  const Tensors mine = kernels(op, inputs, grad);
  const Tensors wide = eager(op, inputs, grad, at::kDouble);
  ASSERT_EQ(mine.size(), wide.size());
  for (size_t k = 0; k < wide.size(); ++k) {
    EXPECT_EQ(mine[k].scalar_type(), dtype);
    EXPECT_TRUE(mine[k].to(at::kDouble).allclose(wide[k], tolerance(dtype), tolerance(dtype), true))
        << op << ' ' << dtype << mine[k].sizes() << mine[k].strides() << " result " << k;
  }
}

at::Tensor random(at::IntArrayRef sizes, at::ScalarType dtype) {
  return at::randn(sizes, at::kDouble).mul(3).to(dtype);
}

Tensors random_inputs(const Case& op, at::IntArrayRef sizes, at::ScalarType dtype) {
  Tensors inputs;
  for (size_t k = 0; k < op.inputs; ++k) inputs.push_back(random(sizes, dtype));
  return inputs;
}

TEST(ElementwiseOnHostTest, EverySmallSizeAgreesWithDouble) {
  for (const Case& op : kCases) {
    for (const at::ScalarType dtype : kFloating) {
      for (int64_t size = 1; size < 40; ++size) {
        expect_close_to_double(op, random_inputs(op, {size}, dtype), random({size}, dtype));
      }
      expect_close_to_double(op, random_inputs(op, {20'001}, dtype), random({20'001}, dtype));
    }
  }
}

TEST(ElementwiseOnHostTest, OperandsMayStandAnywhere) {
  for (const Case& op : kCases) {
    for (const at::ScalarType dtype : kFloating) {
      // Contiguous, but no pack begins where it should; of each operand in turn.
      for (size_t which = 0; which <= op.inputs; ++which) {
        Tensors operands = random_inputs(op, {333}, dtype);
        operands.push_back(random({333}, dtype));
        operands[which] = random({334}, dtype).slice(0, 1);
        const at::Tensor grad = operands.back();
        operands.pop_back();
        expect_close_to_double(op, operands, grad);
      }
      // Strided: slices, transposed operands, one that is repeated.
      Tensors inputs = random_inputs(op, {5, 7, 11}, dtype);
      inputs.back() = random({11, 5, 14}, dtype).permute({1, 2, 0}).slice(1, 0, {}, 2);
      expect_close_to_double(op, inputs, random({5, 7, 11}, dtype));
      inputs[0] = random({7, 1}, dtype).expand({5, 7, 11});
      expect_close_to_double(op, inputs, random({5, 1, 1}, dtype).expand({5, 7, 11}));
    }
  }
}

TEST(ElementwiseOnHostTest, ErrorsAreNotAboveEagers) {
  for (const Case& op : kCases) {
    for (const at::ScalarType dtype : {at::kFloat, at::kHalf, at::kBFloat16}) {
      const Tensors inputs = random_inputs(op, {50'000}, dtype);
      const at::Tensor grad = random({50'000}, dtype);
      const Tensors mine = kernels(op, inputs, grad);
      const Tensors theirs = eager(op, inputs, grad, dtype);
      const Tensors wide = eager(op, inputs, grad, at::kDouble);
      for (size_t k = 0; k < wide.size(); ++k) {
        const auto mean_error = [&](const at::Tensor& x) {
          return x.to(at::kDouble).sub(wide[k]).abs().mean().item<double>();
        };
        // The exp of this machine's C library is neither ATen's nor a GPU's.
        EXPECT_LE(mean_error(mine[k]), 1.01 * mean_error(theirs[k]))
            << op << ' ' << dtype << " result " << k;
      }
    }
  }
}

TEST(ElementwiseOnHostTest, SpecialNumbersAreThoseOfEager) {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Case& op : kCases) {
    for (const at::ScalarType dtype : kFloating) {
      const at::Tensor special =
          at::tensor({0.0, -0.0, inf, -inf, nan, 60000.0, -60000.0, 20.0, -20.0, 1e-7, -1e-7})
              .to(dtype);
      Tensors inputs(op.inputs, at::full({11}, 2, special.options()));
      inputs[0] = special;
      const at::Tensor grad = at::full({11}, 0.5, special.options());
      const Tensors mine = kernels(op, inputs, grad);
      // In double: ATen's vectorised gelu gives NaN for infinity in float.
      const Tensors wide = eager(op, inputs, grad, at::kDouble);
      for (size_t k = 0; k < wide.size(); ++k) {
        const at::Tensor expected = wide[k].to(dtype).to(at::kDouble);
        EXPECT_TRUE(mine[k].to(at::kDouble).allclose(expected, 2e-2, 1e-6, true))
            << op << ' ' << dtype << " result " << k << '\n'
            << mine[k] << expected;
      }
    }
  }
}

TEST(ElementwiseOnHostTest, TheOrderOfThreadsChangesNothing) {
  for (const Case& op : kCases) {
    const Tensors inputs = random_inputs(op, {3001}, at::kFloat);
    const at::Tensor grad = random({3001}, at::kFloat);
    const Tensors forward = kernels(op, inputs, grad);
    cuda_host::set_order(cuda_host::Order::kBackward);
    const Tensors backward = kernels(op, inputs, grad);
    cuda_host::set_order(cuda_host::Order::kForward);
    for (size_t k = 0; k < forward.size(); ++k) EXPECT_TRUE(forward[k].equal(backward[k])) << op;
  }
}

}  // namespace
}  // namespace scramjet::ops
