#include "ops/sigmoid/sigmoid.h"

#include <ATen/Version.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sigmoid_backward.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "ops/sigmoid/sigmoid_cpu_kernel.h"

namespace scramjet::ops {
namespace {

/// Against a double computation: rounding to the dtype, and 2 units for the vector exp and 1/x.
::testing::AssertionResult near(const at::Tensor& actual, const at::Tensor& oracle) {
  double epsilon = std::numeric_limits<double>::epsilon();
  double tiny = std::numeric_limits<double>::min();
  switch (actual.scalar_type()) {
    case at::kFloat:
      epsilon = std::numeric_limits<float>::epsilon();
      tiny = std::numeric_limits<float>::min();
      break;
    case at::kHalf:
      epsilon = 9.765625e-4;  // 2^-10
      tiny = 6.103515625e-5;  // 2^-14
      break;
    case at::kBFloat16:
      epsilon = 7.8125e-3;  // 2^-7
      tiny = std::numeric_limits<float>::min();
      break;
    default:
      break;
  }
  const at::Tensor wide = actual.to(at::kDouble);
  if (wide.sizes() != oracle.sizes()) {
    return ::testing::AssertionFailure() << wide.sizes() << " is not " << oracle.sizes();
  }
  if (wide.allclose(oracle, 3 * epsilon, tiny, /*equal_nan=*/true)) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure()
         << "largest difference " << wide.sub(oracle).abs().max().item<double>();
}

const at::ScalarType kFloating[] = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16};

TEST(SigmoidTest, EverySmallSizeAndStrideAgreesWithDouble) {
  for (const at::ScalarType dtype : kFloating) {
    for (int64_t size = 0; size < 140; ++size) {
      for (const int64_t stride : {1, 2, 3}) {
        const at::Tensor x =
            at::randn({size * stride}, at::kDouble).mul(8).to(dtype).slice(0, 0, {}, stride);
        EXPECT_TRUE(near(ops::sigmoid(x), at::sigmoid(x.to(at::kDouble)))) << dtype << " " << size;
        const at::Tensor grad = at::randn({size}, at::kDouble).to(dtype);
        const at::Tensor y = ops::sigmoid(x);
        EXPECT_TRUE(near(ops::sigmoid_backward(grad, y),
                         at::sigmoid_backward(grad.to(at::kDouble), y.to(at::kDouble))))
            << dtype << " " << size;
      }
    }
  }
}

TEST(SigmoidTest, SpecialValues) {
  const double inf = std::numeric_limits<double>::infinity();
  const at::Tensor x = at::tensor({std::nan(""), inf, -inf, 0.0, -0.0, 1e-310}, at::kDouble);
  const at::Tensor expected = at::tensor({std::nan(""), 1.0, 0.0, 0.5, 0.5, 0.5}, at::kDouble);
  for (const at::ScalarType dtype : kFloating) {
    const at::Tensor y = ops::sigmoid(x.to(dtype)).to(at::kDouble);
    EXPECT_TRUE(y.allclose(expected, 0, 0, /*equal_nan=*/true)) << dtype << y;
  }
}

TEST(SigmoidTest, EveryBuildThatThisCpuRunsAgreesWithDouble) {
  std::vector<decltype(&DEFAULT::sigmoid_loop)> builds = {DEFAULT::sigmoid_loop};
  if (cpu_capability() >= CpuCapability::kAvx2) builds.push_back(AVX2::sigmoid_loop);
  if (cpu_capability() >= CpuCapability::kAvx512) builds.push_back(AVX512::sigmoid_loop);
  std::printf("builds tested: %zu of 3\n", builds.size());
  for (const auto build : builds) {
    for (const at::ScalarType dtype : kFloating) {
      const at::Tensor x = at::linspace(-90, 90, 1003, at::kDouble).to(dtype);
      const at::Tensor y = at::empty_like(x);
      char* data[] = {static_cast<char*>(y.mutable_data_ptr()),
                      static_cast<char*>(x.mutable_data_ptr())};
      const int64_t bytes = x.element_size();
      const int64_t strides[] = {bytes, bytes, 0, 0};
      build(dtype)(data, strides, x.numel(), 1);
      EXPECT_TRUE(near(y, at::sigmoid(x.to(at::kDouble)))) << dtype;
    }
  }
}

TEST(SigmoidTest, FirstToThirdDerivativeAreThoseOfAten) {
  const auto derivatives = [](at::Tensor (*function)(const at::Tensor&)) {
    const at::Tensor x = at::linspace(-3, 3, 12, at::kDouble).reshape({3, 4}).requires_grad_();
    std::vector<at::Tensor> result = {function(x)};
    for (int order = 0; order < 3; ++order) {
      result.push_back(torch::autograd::grad({result.back().sum()}, {x}, {}, {}, true)[0]);
    }
    return result;
  };
  const auto ours = derivatives(ops::sigmoid);
  const auto theirs = derivatives([](const at::Tensor& x) { return at::sigmoid(x); });
  for (size_t order = 0; order < ours.size(); ++order) {
    EXPECT_TRUE(ours[order].allclose(theirs[order], 1e-13, 1e-15)) << order;
  }
}

TEST(SigmoidTest, ThreadsCallAtOnce) {
  const at::Tensor x = at::randn({100'000});
  const at::Tensor expected = ops::sigmoid(x);
  std::vector<std::thread> threads;
  std::vector<char> equal(4);
  for (char& result : equal) {
    threads.emplace_back([&] { result = ops::sigmoid(x).equal(expected); });
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

TEST(SigmoidTest, BadArgumentsAreNamed) {
  expect_error<c10::TypeError>("scramjet::sigmoid: argument 'x' has dtype ComplexFloat",
                               [] { ops::sigmoid(at::zeros({2}, at::kComplexFloat)); });
  expect_error<c10::NotImplementedError>(
      "scramjet::sigmoid: argument 'x' is a Sparse tensor on cpu",
      [] { ops::sigmoid(at::ones({2}).to_sparse()); });
  expect_error<c10::ValueError>(
      "scramjet::sigmoid_backward: argument 'grad_output' has shape [3]; expected that of "
      "'output', "
      "[2]",
      [] { ops::sigmoid_backward(at::ones({3}), at::ones({2})); });
  expect_error<c10::TypeError>("expected that of 'output', Double", [] {
    ops::sigmoid_backward(at::ones({2}), at::ones({2}, at::kDouble));
  });
}

}  // namespace
}  // namespace scramjet::ops
