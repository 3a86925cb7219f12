#include "ops/softmax/softmax.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "ops/softmax/softmax_cpu_kernel.h"

namespace scramjet::ops {
namespace {

using Tensors = std::vector<at::Tensor>;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

const at::ScalarType kFloating[] = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16};

enum class MaskOf { kNothing, kBool, kAdded };

/// How softmax is called: with which mask, causal or not.
struct Case {
  const char* name;
  MaskOf mask;
  bool causal;

  at::Tensor ours(const at::Tensor& x, const at::Tensor& mask) const {
    return ops::softmax(x, mask, kScale, causal);
  }

  at::Tensor eager(const at::Tensor& x, const at::Tensor& mask) const {
    at::Tensor scores = x.mul(kScale);
    if (this->mask == MaskOf::kAdded) scores = scores.add(mask);
    if (this->mask == MaskOf::kBool) scores = scores.masked_fill(mask.logical_not(), -kInf);
    if (causal) {
      const at::Tensor hidden = at::ones({x.size(-2), x.size(-1)}, at::kBool).triu(1);
      scores = scores.masked_fill(hidden, -kInf);
    }
    return at::softmax(scores, -1);
  }

  /// A mask for scores of these sizes, which leaves the first column of each row.
  at::Tensor random_mask(at::IntArrayRef sizes, at::ScalarType dtype) const {
    if (mask == MaskOf::kNothing) return {};
    if (mask == MaskOf::kAdded) return at::randn(sizes, at::kDouble).to(dtype);
    at::Tensor kept = at::rand(sizes).gt(0.3);
    if (kept.numel() > 0) kept.select(-1, 0).fill_(true);
    return kept;
  }

  static constexpr double kScale = 0.7;
};

const Case kCases[] = {
    {"plain", MaskOf::kNothing, false},       {"bool", MaskOf::kBool, false},
    {"added", MaskOf::kAdded, false},         {"causal", MaskOf::kNothing, true},
    {"bool and causal", MaskOf::kBool, true}, {"added and causal", MaskOf::kAdded, true},
};

at::Tensor random_scores(at::IntArrayRef sizes, at::ScalarType dtype) {
  return at::randn(sizes, at::kDouble).mul(2).to(dtype);
}

at::Tensor to(const at::Tensor& x, at::ScalarType dtype) {
  return x.defined() && x.is_floating_point() ? x.to(dtype) : x;
}

/// The output of `function`, one of Case's, then the gradients of x and of a mask that is added.
template <typename Function>
Tensors output_and_gradients(const Function& function, const at::Tensor& x, const at::Tensor& mask,
                             const at::Tensor& grad_output) {
  Tensors leaves = {x.detach().requires_grad_()};
  const bool added = mask.defined() && mask.is_floating_point();
  if (added) leaves.push_back(mask.detach().requires_grad_());
  Tensors results = {function(leaves[0], added ? leaves[1] : mask)};
  const Tensors gradients = torch::autograd::grad(results, leaves, {grad_output});
  results.insert(results.end(), gradients.begin(), gradients.end());
  return results;
}

Tensors ours(const Case& op, const at::Tensor& x, const at::Tensor& mask, const at::Tensor& grad) {
  return output_and_gradients([&](const auto&... in) { return op.ours(in...); }, x, mask, grad);
}

Tensors eager(const Case& op, const at::Tensor& x, const at::Tensor& mask, const at::Tensor& grad,
              at::ScalarType dtype) {
  return output_and_gradients([&](const auto&... in) { return op.eager(in...); }, to(x, dtype),
                              to(mask, dtype), to(grad, dtype));
}

double mean_error(const at::Tensor& actual, const at::Tensor& oracle) {
  return actual.to(at::kDouble).sub(oracle).abs().mean().item<double>();
}

double tolerance(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return 1e-12;
    case at::kHalf:
      return 2e-3;
    case at::kBFloat16:
      return 2e-2;
    default:
      return 2e-6;
  }
}

/// Values, where NaN equals NaN.
bool close(const at::Tensor& actual, const at::Tensor& oracle, double tolerance) {
  return actual.to(at::kDouble).allclose(oracle.to(at::kDouble), tolerance, tolerance, true);
}

TEST(SoftmaxTest, ErrorsAreNotAboveEagers) {
  for (const Case& op : kCases) {
    for (const at::ScalarType dtype : {at::kFloat, at::kHalf, at::kBFloat16}) {
      for (const int64_t columns : {131, 1531}) {
        const std::vector<int64_t> sizes = {2, 129, columns};
        const at::Tensor x = random_scores(sizes, dtype);
        const at::Tensor mask = op.random_mask(sizes, dtype);
        const at::Tensor grad = random_scores(sizes, dtype);
        const Tensors mine = ours(op, x, mask, grad);
        const Tensors theirs = eager(op, x, mask, grad, dtype);
        const Tensors wide = eager(op, x, mask, grad, at::kDouble);
        for (size_t k = 0; k < wide.size(); ++k) {
          // Half and bfloat16 hold the same numbers but for a few ties.
          EXPECT_LE(mean_error(mine[k], wide[k]), 1.001 * mean_error(theirs[k], wide[k]))
              << op.name << " " << dtype << " " << columns << " result " << k;
        }
      }
    }
  }
}

TEST(SoftmaxTest, EverySmallSizeAndStrideAgreesWithDouble) {
  for (const Case& op : kCases) {
    for (int64_t columns = 1; columns < 140; columns += columns < 70 ? 1 : 7) {
      for (const int64_t stride : {1, 2}) {
        for (const at::ScalarType dtype : kFloating) {
          const at::Tensor x =
              random_scores({2, 3, columns * stride}, dtype).slice(2, 0, {}, stride);
          const at::Tensor mask = op.random_mask({2, 3, columns}, dtype);
          const at::Tensor grad = random_scores({2, 3, columns}, dtype);
          const Tensors mine = ours(op, x, mask, grad);
          const Tensors wide = eager(op, x, mask, grad, at::kDouble);
          for (size_t k = 0; k < wide.size(); ++k) {
            EXPECT_TRUE(close(mine[k], wide[k], 4 * tolerance(dtype)))
                << op.name << dtype << columns << " result " << k << mine[k] << wide[k];
          }
        }
      }
    }
  }
}

TEST(SoftmaxTest, CausalTrianglesOfEveryShapeAgreeWithDouble) {
  const Case& op = kCases[3];
  for (const int64_t queries : {1, 2, 33, 70}) {
    for (const int64_t keys : {1, 2, 31, 32, 33, 64, 70, 100}) {
      const at::Tensor x = random_scores({3, queries, keys}, at::kFloat);
      const at::Tensor grad = random_scores({3, queries, keys}, at::kFloat);
      const Tensors mine = ours(op, x, {}, grad);
      const Tensors wide = eager(op, x, {}, grad, at::kDouble);
      EXPECT_TRUE(close(mine[0], wide[0], 1e-6)) << queries << " " << keys;
      EXPECT_TRUE(close(mine[1], wide[1], 1e-5)) << queries << " " << keys;
      EXPECT_TRUE(mine[0].triu(1).equal(at::zeros({3, queries, keys})));
      EXPECT_TRUE(mine[1].triu(1).equal(at::zeros({3, queries, keys})));
    }
  }
}

TEST(SoftmaxTest, EveryBuildThatThisCpuRunsAgreesWithDouble) {
  decltype(&DEFAULT::softmax_rows)
      const forwards[] = {DEFAULT::softmax_rows, AVX2::softmax_rows, AVX512::softmax_rows};
  decltype(&DEFAULT::softmax_backward_rows) const backwards[] = {
      DEFAULT::softmax_backward_rows, AVX2::softmax_backward_rows, AVX512::softmax_backward_rows};
  const MaskKind kinds[] = {MaskKind::kNone, MaskKind::kBool, MaskKind::kOfDtype};
  for (const Case& op : {kCases[0], kCases[1], kCases[2]}) {
    for (const at::ScalarType dtype : kFloating) {
      const at::Tensor x = random_scores({5, 1003}, dtype);
      const at::Tensor mask = op.random_mask({5, 1003}, dtype);
      const at::Tensor grad = random_scores({5, 1003}, dtype);
      const Tensors wide = eager(op, x, mask, grad, at::kDouble);
      for (int build = 0; build <= static_cast<int>(cpu_capability()); ++build) {
        const at::Tensor output = at::empty({5, 1003}, dtype);
        const at::Tensor scratch = at::empty({1003}, at::kDouble);
        SoftmaxRows rows;
        rows.columns = rows.input_stride = 1003;
        rows.scale = Case::kScale;
        rows.input = static_cast<const char*>(x.const_data_ptr());
        rows.output = static_cast<char*>(output.mutable_data_ptr());
        if (mask.defined()) {
          rows.mask = {static_cast<const char*>(mask.const_data_ptr()), 1, {5}, {1003}};
        }
        forwards[build](dtype, kinds[static_cast<int>(op.mask)])(
            rows, static_cast<char*>(scratch.mutable_data_ptr()), 0, 5);
        EXPECT_TRUE(close(output, wide[0], tolerance(dtype))) << op.name << dtype << build;

        const at::Tensor grad_input = at::empty({5, 1003}, dtype);
        SoftmaxBackwardRows backward;
        backward.columns = backward.output_stride = backward.grad_output_stride = 1003;
        backward.scale = Case::kScale;
        backward.output = rows.output;
        backward.grad_output = static_cast<const char*>(grad.const_data_ptr());
        backward.grad_input = static_cast<char*>(grad_input.mutable_data_ptr());
        backwards[build](dtype)(backward, 0, 5);
        EXPECT_TRUE(close(grad_input, wide[1], tolerance(dtype))) << op.name << dtype << build;
      }
    }
  }
}

TEST(SoftmaxTest, MasksAreBroadcastFromEveryShape) {
  for (const Case& op : {kCases[1], kCases[2], kCases[4]}) {
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      const at::Tensor x = random_scores({2, 3, 4, 5, 37}, dtype);
      const at::Tensor grad = random_scores(x.sizes(), dtype);
      Tensors masks;
      for (const std::vector<int64_t>& sizes :
           std::vector<std::vector<int64_t>>{{37},
                                             {5, 37},
                                             {4, 1, 37},
                                             {2, 1, 1, 1, 37},
                                             {2, 1, 4, 1, 37},
                                             {2, 3, 1, 5, 37},
                                             {2, 1, 4, 5, 37},
                                             {2, 3, 4, 5, 37}}) {
        masks.push_back(op.random_mask(sizes, dtype));
      }
      masks.push_back(op.random_mask({37, 5}, dtype).t());
      masks.push_back(op.random_mask({5, 74}, dtype).slice(1, 0, {}, 2));
      masks.push_back(op.random_mask({5, 74}, dtype).slice(1, 1, 38));
      for (const at::Tensor& mask : masks) {
        if (op.mask == MaskOf::kBool) mask.select(-1, 0).fill_(true);
        const Tensors mine = ours(op, x, mask, grad);
        const Tensors wide = eager(op, x, mask, grad, at::kDouble);
        for (size_t k = 0; k < wide.size(); ++k) {
          EXPECT_EQ(mine[k].sizes(), wide[k].sizes());
          // The gradient of a mask has the roundings of up to 120 terms.
          EXPECT_TRUE(close(mine[k], wide[k], (k == 2 ? 10 : 1) * 4 * tolerance(dtype)))
              << op.name << dtype << mask.sizes() << " result " << k;
        }
      }
      const at::Tensor one_number =
          op.mask == MaskOf::kBool ? at::ones({}, at::kBool) : at::full({5, 1}, 2.0, dtype);
      EXPECT_TRUE(close(op.ours(x, one_number), op.ours(x, one_number.expand({5, 37})), 0));
    }
  }
}

TEST(SoftmaxTest, MoreDimensionsThanAKernelTakesStillWork) {
  const std::vector<int64_t> sizes = {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3};
  const at::Tensor x = at::randn(sizes);
  const at::Tensor mask = at::randn(sizes).permute({10, 8, 6, 4, 2, 0, 1, 3, 5, 7, 9, 11});
  EXPECT_TRUE(close(ops::softmax(x, mask), at::softmax(x.add(mask), -1), 1e-6));
}

TEST(SoftmaxTest, HalfTakesAMaskInFloat) {
  for (const at::ScalarType dtype : {at::kHalf, at::kBFloat16}) {
    const at::Tensor x = random_scores({3, 4, 70}, dtype);
    const at::Tensor mask = at::randn({4, 70}).requires_grad_();
    const at::Tensor y = ops::softmax(x, mask, 0.5);
    EXPECT_EQ(y.scalar_type(), dtype);
    const at::Tensor oracle = at::softmax(x.to(at::kDouble).mul(0.5).add(mask), -1);
    EXPECT_TRUE(close(y, oracle, tolerance(dtype)));
    const at::Tensor gradient = torch::autograd::grad({y.square().sum()}, {mask})[0];
    EXPECT_EQ(gradient.scalar_type(), at::kFloat);
    EXPECT_TRUE(close(gradient, torch::autograd::grad({oracle.square().sum()}, {mask})[0],
                      tolerance(dtype)));
  }
}

TEST(SoftmaxTest, SpecialRowsAreThoseOfEager) {
  for (const Case& op : kCases) {
    for (const double special : {kInf, -kInf, kNan, 0.0, 60000.0, -60000.0}) {
      for (const at::ScalarType dtype : kFloating) {
        at::Tensor x = random_scores({1, 6, 75}, at::kDouble);
        x.select(1, 2).select(-1, 1).fill_(special);
        x.select(1, 4).fill_(special);
        x.select(1, 5).select(-1, 74).fill_(special);
        x = x.to(dtype);
        at::Tensor mask = op.random_mask({1, 6, 75}, dtype);
        // A number that is left out may be anything.
        if (op.mask == MaskOf::kBool) mask.select(1, 3).select(-1, 7).fill_(false);
        x.select(1, 3).select(-1, 7).fill_(op.mask == MaskOf::kBool ? special : 1);
        const at::Tensor grad = random_scores({1, 6, 75}, dtype);
        const Tensors mine = ours(op, x, mask, grad);
        const Tensors wide = eager(op, x, mask, grad, at::kDouble);
        // Beside 60000, what is added is rounded.
        const double slack = std::abs(special) == 60000.0 ? 2e-2 : 4 * tolerance(dtype);
        EXPECT_TRUE(close(mine[0], wide[0], slack)) << op.name << special << dtype;
        EXPECT_TRUE(close(mine[1], wide[1], slack)) << op.name << special << dtype;
      }
    }
  }
}

TEST(SoftmaxTest, ARowWithNothingLeftIsNanAndItsGradientZeroWhereItIsLeftOut) {
  for (const at::ScalarType dtype : kFloating) {
    const at::Tensor x = random_scores({2, 3, 40}, dtype);
    const at::Tensor grad = random_scores({2, 3, 40}, dtype);
    const at::Tensor kept = at::ones({3, 40}, at::kBool);
    kept.select(0, 1).fill_(false);
    for (const Case& op : {kCases[1], kCases[4]}) {
      const Tensors mine = ours(op, x, kept, grad);
      const Tensors wide = eager(op, x, kept, grad, at::kDouble);
      EXPECT_TRUE(mine[0].select(1, 1).isnan().all().item<bool>());
      EXPECT_FALSE(mine[1].isnan().any().item<bool>());
      EXPECT_TRUE(close(mine[0], wide[0], tolerance(dtype)));
      EXPECT_TRUE(close(mine[1], wide[1], 4 * tolerance(dtype)));
    }
    const at::Tensor added = at::zeros({3, 40}, dtype).masked_fill(kept.logical_not(), -kInf);
    const Tensors mine = ours(kCases[2], x, added, grad);
    const Tensors wide = eager(kCases[2], x, added, grad, at::kDouble);
    for (size_t k = 0; k < wide.size(); ++k) {
      EXPECT_TRUE(close(mine[k], wide[k], 4 * tolerance(dtype))) << k;
    }
  }
}

TEST(SoftmaxTest, HugeScoresAndLongRowsLoseNoDigits) {
  const at::Tensor huge = at::randn({3, 1000}).add(1e6);
  EXPECT_TRUE(close(ops::softmax(huge), at::softmax(huge.to(at::kDouble), -1), 1e-5));
  const at::Tensor x = at::rand({1, 4'000'001});
  const at::Tensor oracle = at::softmax(x.to(at::kDouble), -1);
  EXPECT_LE(mean_error(ops::softmax(x), oracle), 1e-7 * oracle.mean().item<double>());
  EXPECT_TRUE(close(ops::softmax(x.to(at::kBFloat16)).sum(-1, false, at::kDouble),
                    at::ones({1}, at::kDouble), 1e-2));
}

TEST(SoftmaxTest, FirstAndSecondDerivativesAreThoseOfAten) {
  for (const Case& op : kCases) {
    const at::Tensor x = random_scores({2, 3, 4}, at::kDouble);
    const at::Tensor mask = op.random_mask({3, 4}, at::kDouble);
    const auto derivatives = [&](const auto& function) {
      Tensors leaves = {x.detach().requires_grad_()};
      if (op.mask == MaskOf::kAdded) leaves.push_back(mask.detach().requires_grad_());
      const at::Tensor y = function(leaves[0], op.mask == MaskOf::kAdded ? leaves[1] : mask);
      Tensors results = torch::autograd::grad({y.pow(3).sum()}, leaves, {}, {}, true);
      at::Tensor squares = at::zeros({}, at::kDouble);
      for (const at::Tensor& gradient : results) squares = squares.add(gradient.square().sum());
      const Tensors second = torch::autograd::grad({squares}, leaves, {}, {}, true);
      results.insert(results.end(), second.begin(), second.end());
      return results;
    };
    const Tensors mine = derivatives([&](const auto&... in) { return op.ours(in...); });
    const Tensors theirs = derivatives([&](const auto&... in) { return op.eager(in...); });
    for (size_t k = 0; k < mine.size(); ++k) {
      EXPECT_TRUE(mine[k].allclose(theirs[k], 1e-9, 1e-11)) << op.name << k;
    }
  }
}

TEST(SoftmaxTest, OnlyTheGradientsThatAreAskedForAreGiven) {
  const at::Tensor x = at::randn({3, 5});
  const at::Tensor mask = at::randn({5}).requires_grad_();
  ops::softmax(x, mask).square().sum().backward();
  EXPECT_TRUE(mask.grad().defined());
  EXPECT_EQ(mask.grad().sizes(), mask.sizes());
  EXPECT_FALSE(x.grad().defined());
}

TEST(SoftmaxTest, PartsOfAProjectionNeedNoCopy) {
  const at::Tensor part = at::randn({64, 384}).chunk(3, -1)[1];
  const at::Tensor y = ops::softmax(part);
  EXPECT_TRUE(y.equal(ops::softmax(part.contiguous())));
  EXPECT_TRUE(y.is_contiguous());
}

TEST(SoftmaxTest, EmptyTensorsWork) {
  for (const auto& [rows, columns] : {std::pair{0, 8}, {3, 0}, {0, 0}}) {
    for (const Case& op : kCases) {
      const at::Tensor x = at::zeros({2, rows, columns});
      const Tensors mine = ours(op, x, op.random_mask({rows, columns}, at::kFloat), x);
      EXPECT_TRUE(mine[0].equal(x));
      EXPECT_TRUE(mine[1].equal(x));
    }
  }
}

TEST(SoftmaxTest, ThreadsCallAtOnce) {
  const at::Tensor x = at::randn({8, 100, 1000});
  const at::Tensor mask = at::randn({100, 1000});
  const at::Tensor expected = ops::softmax(x, mask, 0.5, true);
  std::vector<std::thread> threads;
  std::vector<char> equal(4);
  threads.reserve(equal.size());
  for (char& result : equal) {
    threads.emplace_back([&] { result = ops::softmax(x, mask, 0.5, true).equal(expected); });
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

TEST(SoftmaxTest, BadArgumentsAreNamed) {
  const at::Tensor x = at::ones({2, 3});
  expect_error<c10::TypeError>("scramjet::softmax: argument 'input' has dtype Long; expected",
                               [&] { ops::softmax(x.to(at::kLong)); });
  expect_error<c10::TypeError>(
      "scramjet::softmax: argument 'mask' has dtype Double; expected Bool, that of 'input', Float",
      [&] { ops::softmax(x, x.to(at::kDouble)); });
  expect_error<c10::ValueError>(
      "scramjet::softmax: argument 'mask' has shape [2]; expected one that can be broadcast to "
      "that of 'input', [2, 3]",
      [&] { ops::softmax(x, at::ones({2})); });
  expect_error<c10::ValueError>("argument 'mask' has shape [4, 2, 3]; expected", [&] {
    ops::softmax(x, at::ones({4, 2, 3}));
  });
  expect_error<c10::ValueError>(
      "scramjet::softmax: argument 'input' has shape []; expected at least 1 dimension",
      [&] { ops::softmax(at::ones({})); });
  expect_error<c10::ValueError>(
      "argument 'input' has shape [3]; expected at least 2 dimensions with 'causal'",
      [&] { ops::softmax(at::ones({3}), {}, 1, true); });
  expect_error<c10::TypeError>(
      "scramjet::softmax_backward: argument 'mask' has dtype Float; expected Bool, or none",
      [&] { ops::softmax_backward(x, x, x); });
  expect_error<c10::ValueError>(
      "scramjet::softmax_backward: argument 'grad_output' has shape [3]; expected that of 'output'",
      [&] { ops::softmax_backward(at::ones({3}), x); });
  expect_error<c10::NotImplementedError>(
      "scramjet::softmax: argument 'input' is a Sparse tensor on cpu",
      [&] { ops::softmax(x.to_sparse()); });
}

}  // namespace
}  // namespace scramjet::ops
