#include "ops/glu/glu.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "ops/glu/glu_cpu_kernel.h"

namespace scramjet::ops {
namespace {

using Forward = std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>;
using Gradients = std::vector<at::Tensor>;

struct Gate {
  const char* name;
  Forward ours;
  Forward eager;
  decltype(&DEFAULT::silu_mul_loop) builds[3];
};

const std::vector<Gate>& gates() {
  static const std::vector<Gate> all = {
      {"silu",
       [](const auto& gate, const auto& up) { return ops::silu_mul(gate, up); },
       [](const auto& gate, const auto& up) { return at::silu(gate).mul(up); },
       {DEFAULT::silu_mul_loop, AVX2::silu_mul_loop, AVX512::silu_mul_loop}},
      {"gelu",
       [](const auto& gate, const auto& up) { return ops::gelu_mul(gate, up); },
       [](const auto& gate, const auto& up) { return at::gelu(gate).mul(up); },
       {DEFAULT::gelu_mul_loop, AVX2::gelu_mul_loop, AVX512::gelu_mul_loop}},
      {"gelu by tanh",
       [](const auto& gate, const auto& up) { return ops::gelu_mul(gate, up, "tanh"); },
       [](const auto& gate, const auto& up) { return at::gelu(gate, "tanh").mul(up); },
       {DEFAULT::gelu_tanh_mul_loop, AVX2::gelu_tanh_mul_loop, AVX512::gelu_tanh_mul_loop}},
  };
  return all;
}

const at::ScalarType kFloating[] = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16};

Gradients gradients(const Forward& function, const at::Tensor& gate, const at::Tensor& up,
                    const at::Tensor& grad_output) {
  const at::Tensor x = gate.detach().requires_grad_();
  const at::Tensor y = up.detach().requires_grad_();
  return torch::autograd::grad({function(x, y)}, {x, y}, {grad_output});
}

double largest_error(const at::Tensor& actual, const at::Tensor& oracle) {
  return actual.to(at::kDouble).sub(oracle).abs().max().item<double>();
}

TEST(GluTest, ErrorsAreNotAboveEagers) {
  for (const Gate& op : gates()) {
    for (const at::ScalarType dtype : {at::kFloat, at::kHalf, at::kBFloat16}) {
      const at::Tensor gate = at::linspace(-12, 12, 100'003, at::kDouble).to(dtype);
      const at::Tensor up = at::rand({100'003}, at::kDouble).add(0.5).to(dtype);
      const at::Tensor grad = at::rand({100'003}, at::kDouble).add(0.5).to(dtype);
      const at::Tensor wide_gate = gate.to(at::kDouble);
      const at::Tensor wide_up = up.to(at::kDouble);
      const at::Tensor oracle = op.eager(wide_gate, wide_up);
      EXPECT_LE(largest_error(op.ours(gate, up), oracle), largest_error(op.eager(gate, up), oracle))
          << op.name << " " << dtype;
      const Gradients wide = gradients(op.eager, wide_gate, wide_up, grad.to(at::kDouble));
      const Gradients mine = gradients(op.ours, gate, up, grad);
      const Gradients theirs = gradients(op.eager, gate, up, grad);
      for (size_t k = 0; k < wide.size(); ++k) {
        EXPECT_LE(largest_error(mine[k], wide[k]), largest_error(theirs[k], wide[k]))
            << op.name << " " << dtype << " gradient " << k;
      }
    }
  }
}

TEST(GluTest, GeluKeepsTheDigitsOfItsLowerTail) {
  const at::Tensor x = at::linspace(-12, -1, 10'001);
  // gelu in double has lost them too: x Phi(x) = -phi(x) (1 - 1/x^2 + ...) bounds it from both
  // sides.
  const at::Tensor wide = x.to(at::kDouble);
  const at::Tensor density = wide.square().mul(-0.5).exp().mul(0.3989422804014327);
  const at::Tensor y = ops::gelu_mul(x, at::ones({10'001})).to(at::kDouble).neg();
  EXPECT_TRUE(y.le(density.mul(1.00001)).all().item<bool>());
  EXPECT_TRUE(y.ge(density.mul(wide.square().reciprocal().neg().add(0.99999))).all().item<bool>());
}

TEST(GluTest, EverySmallSizeAndStrideAgreesWithDouble) {
  for (const Gate& op : gates()) {
    for (int64_t size = 0; size < 70; ++size) {
      for (const int64_t stride : {1, 2}) {
        const at::Tensor gate = at::randn({size * stride}).slice(0, 0, {}, stride);
        const at::Tensor up = at::randn({size});
        const at::Tensor grad = at::randn({size}, at::kDouble);
        const at::Tensor wide_gate = gate.to(at::kDouble);
        const at::Tensor wide_up = up.to(at::kDouble);
        EXPECT_TRUE(
            op.ours(gate, up).allclose(op.eager(wide_gate, wide_up).to(at::kFloat), 1e-5, 1e-6))
            << op.name << size;
        const Gradients mine = gradients(op.ours, gate, up, grad.to(at::kFloat));
        const Gradients wide = gradients(op.eager, wide_gate, wide_up, grad);
        for (size_t k = 0; k < wide.size(); ++k) {
          EXPECT_TRUE(mine[k].to(at::kDouble).allclose(wide[k], 1e-5, 1e-6)) << op.name << size;
        }
      }
    }
  }
}

TEST(GluTest, EveryBuildThatThisCpuRunsAgreesWithDouble) {
  for (const Gate& op : gates()) {
    for (int build = 0; build <= static_cast<int>(cpu_capability()); ++build) {
      for (const at::ScalarType dtype : kFloating) {
        const at::Tensor gate = at::linspace(-90, 90, 1003, at::kDouble).to(dtype);
        const at::Tensor up = at::randn({1003}, at::kDouble).to(dtype);
        const at::Tensor y = at::empty_like(gate);
        char* data[] = {static_cast<char*>(y.mutable_data_ptr()),
                        static_cast<char*>(gate.mutable_data_ptr()),
                        static_cast<char*>(up.mutable_data_ptr())};
        const int64_t bytes = gate.element_size();
        const int64_t strides[] = {bytes, bytes, bytes, 0, 0, 0};
        op.builds[build](dtype)(data, strides, gate.numel(), 1);
        const at::Tensor oracle = op.eager(gate.to(at::kDouble), up.to(at::kDouble)).to(dtype);
        const double tolerance = dtype == at::kBFloat16 ? 8e-3 : dtype == at::kHalf ? 1e-3 : 2e-6;
        EXPECT_TRUE(y.allclose(oracle, tolerance, 1e-6)) << op.name << dtype << build;
      }
    }
  }
}

TEST(GluTest, SpecialValuesAreThoseOfEager) {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const at::Tensor values =
      at::tensor({nan, inf, -inf, 0.0, -0.0, 1e-40, 3e38, -3e38, 200.0, -200.0}, at::kDouble);
  for (const Gate& op : gates()) {
    for (const at::ScalarType dtype : kFloating) {
      const at::Tensor gate = values.to(dtype).repeat({7});
      const at::Tensor ones = at::ones({70}, dtype);
      const at::Tensor expected = op.eager(gate.to(at::kDouble), ones.to(at::kDouble)).to(dtype);
      EXPECT_TRUE(op.ours(gate, ones).allclose(expected, 0, 1e-30, /*equal_nan=*/true))
          << op.name << dtype << op.ours(gate, ones).slice(0, 0, 10);
      EXPECT_TRUE(op.ours(ones, gate).allclose(op.eager(ones, gate), 1e-2, 0, /*equal_nan=*/true));
    }
  }
}

TEST(GluTest, FirstAndSecondDerivativesAreThoseOfAten) {
  for (const Gate& op : gates()) {
    const auto derivatives = [](const Forward& function) {
      const at::Tensor gate = at::linspace(-3, 3, 12, at::kDouble).reshape({3, 4}).requires_grad_();
      const at::Tensor up = at::linspace(1, 2, 12, at::kDouble).reshape({3, 4}).requires_grad_();
      const Gradients first =
          torch::autograd::grad({function(gate, up).sum()}, {gate, up}, {}, {}, true);
      const Gradients second = torch::autograd::grad(
          {first[0].square().sum().add(first[1].square().sum())}, {gate, up}, {}, {}, true);
      return Gradients{first[0], first[1], second[0], second[1]};
    };
    const Gradients ours = derivatives(op.ours);
    const Gradients theirs = derivatives(op.eager);
    for (size_t k = 0; k < ours.size(); ++k) {
      EXPECT_TRUE(ours[k].allclose(theirs[k], 1e-12, 1e-14)) << op.name << k;
    }
  }
}

TEST(GluTest, OnlyTheGradientsThatAreAskedForAreGiven) {
  const at::Tensor gate = at::randn({5}).requires_grad_();
  const at::Tensor up = at::randn({5});
  ops::gelu_mul(gate, up).sum().backward();
  EXPECT_TRUE(gate.grad().defined());
  EXPECT_FALSE(up.grad().defined());
}

TEST(GluTest, LargeHalvesOfOneProjectionNeedNoCopy) {
  const at::Tensor projection = at::randn({700, 4096});
  const auto halves = projection.chunk(2, -1);
  const at::Tensor expected = ops::silu_mul(halves[0].contiguous(), halves[1].contiguous());
  const at::Tensor actual = ops::silu_mul(halves[0], halves[1]);
  EXPECT_TRUE(actual.equal(expected));
  EXPECT_TRUE(actual.is_contiguous());
}

TEST(GluTest, ThreadsCallAtOnce) {
  const at::Tensor x = at::randn({1'000'000});
  const at::Tensor expected = ops::gelu_mul(x, x);
  std::vector<std::thread> threads;
  std::vector<char> equal(4);
  threads.reserve(equal.size());
  for (char& result : equal) {
    threads.emplace_back([&] { result = ops::gelu_mul(x, x).equal(expected); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(equal, std::vector<char>(4, 1));
}

template <typename Error, typename Call>
void expect_error(const char* message, const Call& call) {
  try {
    call();
    ADD_FAILURE() << "no error; expected: " << message;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
  }
}

TEST(GluTest, BadArgumentsAreNamed) {
  const at::Tensor x = at::ones({2});
  expect_error<c10::TypeError>("scramjet::silu_mul: argument 'gate' has dtype Long; expected Float",
                               [&] { ops::silu_mul(at::zeros({2}, at::kLong), x); });
  expect_error<c10::TypeError>(
      "scramjet::gelu_mul: argument 'up' has dtype Double; expected that of 'gate', Float",
      [&] { ops::gelu_mul(x, x.to(at::kDouble)); });
  expect_error<c10::ValueError>(
      "scramjet::silu_mul: argument 'up' has shape [3]; expected that of 'gate', [2]",
      [&] { ops::silu_mul(x, at::ones({3})); });
  expect_error<c10::ValueError>(
      "scramjet::gelu_mul: argument 'approximate' is 'fast'; expected 'none' or 'tanh'",
      [&] { ops::gelu_mul(x, x, "fast"); });
  expect_error<c10::ValueError>(
      "scramjet::silu_mul_backward: argument 'grad_output' has shape [3]; expected that of 'gate'",
      [&] { ops::silu_mul_backward(at::ones({3}), x, x); });
  expect_error<c10::NotImplementedError>(
      "scramjet::gelu_mul: argument 'up' is a Sparse tensor on cpu",
      [&] { ops::gelu_mul(x, x.to_sparse()); });
}

}  // namespace
}  // namespace scramjet::ops
