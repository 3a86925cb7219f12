#include "ops/loss/loss.h"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "ops/loss/loss_cpu_kernel.h"

namespace scramjet::ops {
namespace {

using Tensors = std::vector<at::Tensor>;

const at::ScalarType kFloating[] = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16};

/// The options of a loss, and the loss by ATen.
struct Case {
  std::string reduction = "mean";
  double label_smoothing = 0;
  double z_loss = 0;
  int64_t ignore_index = -100;

  at::Tensor ours(const at::Tensor& logits, const at::Tensor& target) const {
    return ops::cross_entropy(logits, target, reduction, ignore_index, label_smoothing, z_loss);
  }

  /// `x`: input, weight and, where there is one, bias.
  at::Tensor ours_of_linear(const Tensors& x, const at::Tensor& target) const {
    return ops::linear_cross_entropy(x[0], x[1], target,
                                     x.size() > 2 ? std::optional(x[2]) : std::nullopt, reduction,
                                     ignore_index, label_smoothing, z_loss);
  }

  at::Tensor eager(const at::Tensor& logits, const at::Tensor& target) const {
    const auto kind = reduction == "mean"  ? at::Reduction::Mean
                      : reduction == "sum" ? at::Reduction::Sum
                                           : at::Reduction::None;
    at::Tensor loss =
        at::cross_entropy_loss(logits, target, {}, kind, ignore_index, label_smoothing);
    if (z_loss == 0) return loss;
    const at::Tensor counts = target.ne(ignore_index);
    at::Tensor added = at::where(counts, at::logsumexp(logits, 1).square().mul(z_loss), 0);
    if (reduction != "none") added = added.sum();
    if (reduction == "mean") added = added.div(counts.sum());
    return loss.add(added);
  }

  at::Tensor eager_of_linear(const Tensors& x, const at::Tensor& target) const {
    return eager(at::linear(x[0], x[1], x.size() > 2 ? std::optional(x[2]) : std::nullopt), target);
  }

  friend std::ostream& operator<<(std::ostream& out, const Case& op) {
    return out << op.reduction << " smoothing " << op.label_smoothing << " z " << op.z_loss
               << " ignored " << op.ignore_index << " ";
  }
};

const Case kCases[] = {{},
                       {"none"},
                       {"sum"},
                       {"mean", 0.1},
                       {"none", 0.3, 1e-2},
                       {"sum", 0, 1e-2, 1},
                       {"mean", 1.0, 1e-2, 0}};

/// Some of them ignored, if there are several.
at::Tensor random_target(int64_t rows, int64_t classes, int64_t ignore_index) {
  at::Tensor target = at::randint(classes, {rows}, at::kLong);
  if (rows > 2) target.slice(0, 1, {}, 5).fill_(ignore_index);
  return target;
}

at::Tensor random_logits(int64_t rows, int64_t classes, at::ScalarType dtype) {
  return at::randn({rows, classes}, at::kDouble).mul(2).to(dtype);
}

Tensors to(const Tensors& tensors, at::ScalarType dtype) {
  Tensors result;
  for (const at::Tensor& x : tensors) result.push_back(x.to(dtype));
  return result;
}

Tensors leaves(const Tensors& tensors) {
  Tensors result;
  for (const at::Tensor& x : tensors) result.push_back(x.detach().requires_grad_());
  return result;
}

/// The loss that `function` makes of the inputs, then their gradients.
template <typename Function>
Tensors loss_and_gradients(const Function& function, const Tensors& inputs,
                           const at::Tensor& grad_output) {
  const Tensors x = leaves(inputs);
  Tensors results = {function(x)};
  const Tensors gradients =
      torch::autograd::grad(results, x, {grad_output.to(results[0].scalar_type())});
  results.insert(results.end(), gradients.begin(), gradients.end());
  return results;
}

/// For the loss of `op`.
at::Tensor random_gradient(const Case& op, int64_t rows, at::ScalarType dtype) {
  const at::Tensor grad =
      op.reduction == "none" ? at::rand({rows}, at::kDouble) : at::rand({}, at::kDouble);
  return grad.add(0.5).to(dtype);
}

double mean_error(const at::Tensor& actual, const at::Tensor& oracle) {
  return actual.to(at::kDouble).sub(oracle).abs().mean().item<double>();
}

TEST(LossTest, ErrorsAreNotAboveEagers) {
  for (const Case& op : kCases) {
    for (const at::ScalarType dtype : {at::kFloat, at::kHalf, at::kBFloat16}) {
      const Tensors logits = {random_logits(257, 1531, dtype)};
      const at::Tensor target = random_target(257, 1531, op.ignore_index);
      const at::Tensor grad = random_gradient(op, 257, dtype);
      const auto ours = [&](const Tensors& x) { return op.ours(x[0], target); };
      const auto eager = [&](const Tensors& x) { return op.eager(x[0], target); };
      const Tensors mine = loss_and_gradients(ours, logits, grad);
      const Tensors theirs = loss_and_gradients(eager, logits, grad);
      const Tensors wide = loss_and_gradients(eager, to(logits, at::kDouble), grad.to(at::kDouble));
      for (size_t k = 0; k < wide.size(); ++k) {
        // One number is right by chance too: half a unit of its last digit is granted.
        const double chance =
            wide[k].dim() == 0 && dtype == at::kFloat ? 1e-7 * wide[k].item<double>() : 0;
        EXPECT_LE(mean_error(mine[k], wide[k]), 1.001 * mean_error(theirs[k], wide[k]) + chance)
            << op << dtype << " result " << k;
      }
    }
  }
}

TEST(LossTest, EverySmallSizeAndStrideAgreesWithDouble) {
  for (const Case& op : kCases) {
    for (int64_t classes = 2; classes < 140; classes += classes < 70 ? 1 : 7) {
      for (const int64_t stride : {1, 2}) {
        const Tensors logits = {
            random_logits(4, classes * stride, at::kFloat).slice(1, 0, {}, stride)};
        const at::Tensor target = random_target(4, classes, op.ignore_index);
        const at::Tensor grad = random_gradient(op, 4, at::kFloat);
        const Tensors mine =
            loss_and_gradients([&](const auto& x) { return op.ours(x[0], target); }, logits, grad);
        const Tensors wide =
            loss_and_gradients([&](const auto& x) { return op.eager(x[0], target); },
                               to(logits, at::kDouble), grad.to(at::kDouble));
        for (size_t k = 0; k < wide.size(); ++k) {
          EXPECT_TRUE(mine[k].to(at::kDouble).allclose(wide[k], 1e-5, 1e-5, true))
              << op << classes << " result " << k << mine[k] << wide[k];
        }
      }
    }
  }
}

TEST(LossTest, EveryBuildThatThisCpuRunsAgreesWithDouble) {
  const decltype(&DEFAULT::loss_rows) builds[] = {DEFAULT::loss_rows, AVX2::loss_rows,
                                                  AVX512::loss_rows};
  for (const int64_t classes : {9, 3001, 9003}) {
    for (const at::ScalarType dtype : kFloating) {
      const at::Tensor logits = random_logits(5, classes, dtype);
      const at::Tensor target = random_target(5, classes, -100);
      const at::Tensor grad = at::rand({5}, at::kDouble);
      const Case op = {"none", 0.1, 1e-3};
      const Tensors wide = loss_and_gradients([&](const auto& x) { return op.eager(x[0], target); },
                                              {logits.to(at::kDouble)}, grad);
      for (int build = 0; build <= static_cast<int>(cpu_capability()); ++build) {
        const at::Tensor losses = at::empty({5}, at::kDouble);
        const at::Tensor logsumexp = at::empty({5}, at::kDouble);
        const at::Tensor gradient = logits.clone();
        LossRows rows;
        rows.columns = rows.classes = classes;
        rows.ignore_index = -100;
        rows.label_smoothing = op.label_smoothing;
        rows.z_loss = op.z_loss;
        rows.logits = {static_cast<char*>(gradient.mutable_data_ptr()), classes};
        rows.target = target.const_data_ptr<int64_t>();
        rows.loss = losses.mutable_data_ptr<double>();
        rows.logsumexp = logsumexp.mutable_data_ptr<double>();
        rows.grad = grad.const_data_ptr<double>();
        rows.grad_logits = rows.logits;
        builds[build](dtype)(rows, 0, 5);
        const double tolerance = dtype == at::kBFloat16 ? 1e-2 : dtype == at::kHalf ? 2e-3 : 1e-5;
        EXPECT_TRUE(losses.allclose(wide[0], 1e-6, 1e-6)) << dtype << build << losses << wide[0];
        EXPECT_TRUE(gradient.to(at::kDouble).allclose(wide[1], tolerance, 1e-7))
            << dtype << build << " " << classes;
      }
    }
  }
}

TEST(LossTest, SpecialLogitsAreThoseOfEager) {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Case& op : {kCases[1], kCases[4]}) {
    for (const double special : {inf, -inf, nan, 0.0, 1e-30, 60000.0, -60000.0}) {
      for (const double others : {0.0, special}) {
        for (const at::ScalarType dtype : kFloating) {
          at::Tensor logits = random_logits(4, 5075, at::kDouble);
          logits.select(0, 1).fill_(others).select(0, 4040).fill_(special);
          logits.select(0, 2).fill_(others).select(0, 3).fill_(special);
          logits = logits.to(dtype);
          const at::Tensor target = at::tensor({5, 4040, 17, 0}, at::kLong);
          const at::Tensor grad = at::ones({4}, at::kDouble);
          const Tensors mine = loss_and_gradients(
              [&](const auto& x) { return op.ours(x[0], target); }, {logits}, grad);
          const Tensors wide =
              loss_and_gradients([&](const auto& x) { return op.eager(x[0], target); },
                                 {logits.to(at::kDouble)}, grad);
          for (size_t k = 0; k < wide.size(); ++k) {
            const at::Tensor expected = wide[k].to(dtype).to(at::kDouble);
            EXPECT_TRUE(mine[k].to(at::kDouble).allclose(expected, 1e-2, 1e-3, true))
                << op << special << " " << others << dtype << k;
          }
        }
      }
    }
  }
}

TEST(LossTest, LargeLogitsLoseNoDigits) {
  const at::Tensor logits = random_logits(50, 700, at::kFloat).add(12'345);
  const at::Tensor target = random_target(50, 700, -100);
  const at::Tensor grad = at::ones({50}, at::kDouble);
  const auto run = [&](const auto& x) { return ops::cross_entropy(x[0], target, "none"); };
  const Tensors mine = loss_and_gradients(run, {logits}, grad);
  const Tensors wide = loss_and_gradients(run, {logits.to(at::kDouble)}, grad);
  EXPECT_LT(mean_error(mine[0], wide[0]), 1e-6);
  EXPECT_LT(mean_error(mine[1], wide[1]), 1e-9);
}

TEST(LossTest, RowsThatGrowLoseNoDigits) {
  for (const at::ScalarType dtype : kFloating) {
    for (const double last : {5.0, 300.0, -300.0}) {
      const at::Tensor logits =
          at::linspace(-last, last, 40'000, at::kDouble).to(dtype).view({1, -1});
      const at::Tensor target = at::tensor({39'000}, at::kLong);
      const double actual = ops::cross_entropy(logits.to(dtype), target, "sum", -100, 0, 0,
                                               dtype == at::kDouble ? dtype : at::kFloat)
                                .item<double>();
      const double exact = at::cross_entropy_loss(logits.to(at::kDouble), target).item<double>();
      EXPECT_NEAR(actual, exact, 1e-5 * std::abs(exact)) << dtype << last;
    }
  }
}

TEST(LossTest, NanAmongMinusInfinityStays) {
  const double inf = std::numeric_limits<double>::infinity();
  const at::Tensor logits = at::full({1, 20'000}, -inf);
  logits.select(1, 3).fill_(std::numeric_limits<double>::quiet_NaN());
  logits.select(1, 15'000).fill_(2);
  EXPECT_TRUE(ops::cross_entropy(logits, at::tensor({15'000}, at::kLong)).isnan().item<bool>());
  logits.select(1, 3).fill_(-inf);
  EXPECT_EQ(ops::cross_entropy(logits, at::tensor({15'000}, at::kLong)).item<double>(), 0);
}

TEST(LossTest, RowsThatAreIgnoredAreNotRead) {
  const at::Tensor logits = random_logits(3, 40, at::kFloat);
  logits.select(0, 1).fill_(std::numeric_limits<float>::quiet_NaN());
  const at::Tensor target = at::tensor({3, -100, 7}, at::kLong);
  const Tensors results = loss_and_gradients(
      [&](const auto& x) { return ops::cross_entropy(x[0], target); }, {logits}, at::ones({}));
  EXPECT_TRUE(results[0].isfinite().item<bool>());
  EXPECT_TRUE(results[1].select(0, 1).eq(0).all().item<bool>());
}

TEST(LossTest, NoRowThatCountsIsAsEager) {
  const at::Tensor none = at::full({3}, -100, at::kLong);
  for (const int64_t rows : {3, 0}) {
    const at::Tensor logits = at::randn({rows, 5});
    const at::Tensor target = none.slice(0, 0, rows);
    const at::Tensor weight = at::randn({5, 5});
    for (const Case& op : {kCases[0], kCases[1], kCases[2]}) {
      const at::Tensor grad = random_gradient(op, target.size(0), at::kFloat);
      const auto ours = [&](const auto& x) { return op.ours(x[0], target); };
      const auto eager = [&](const auto& x) { return op.eager(x[0], target); };
      const Tensors mine = loss_and_gradients(ours, {logits}, grad);
      const Tensors theirs = loss_and_gradients(eager, {logits}, grad);
      const auto linear = [&](const auto& x) { return op.ours_of_linear(x, target); };
      const Tensors of_linear = loss_and_gradients(linear, {logits, weight}, grad);
      EXPECT_TRUE(mine[0].allclose(theirs[0], 0, 0, true)) << op << mine[0];
      EXPECT_TRUE(mine[1].equal(theirs[1])) << op << mine[1] << theirs[1];
      EXPECT_TRUE(of_linear[0].allclose(theirs[0], 0, 0, true)) << op;
      EXPECT_TRUE(of_linear[1].equal(at::zeros_like(logits))) << op;
      EXPECT_TRUE(of_linear[2].equal(at::zeros_like(weight))) << op;
    }
  }
}

TEST(LossTest, FirstAndSecondDerivativesAreThoseOfAten) {
  for (const Case& op : kCases) {
    const at::Tensor target = random_target(4, 5, op.ignore_index);
    const auto derivatives = [&](const auto& function, const Tensors& inputs) {
      const Tensors x = leaves(inputs);
      const at::Tensor loss = function(x).pow(3).sum();
      Tensors results = torch::autograd::grad({loss}, x, {}, {}, /*create_graph=*/true);
      at::Tensor squares = at::zeros({}, at::kDouble);
      for (const at::Tensor& gradient : results) squares = squares.add(gradient.square().sum());
      const Tensors second = torch::autograd::grad({squares}, x, {}, {}, true);
      results.insert(results.end(), second.begin(), second.end());
      return results;
    };
    const auto expect_alike = [&](const Tensors& ours, const Tensors& theirs) {
      for (size_t k = 0; k < ours.size(); ++k) {
        EXPECT_TRUE(ours[k].allclose(theirs[k], 1e-9, 1e-11)) << op << k;
      }
    };
    const Tensors logits = {random_logits(4, 5, at::kDouble)};
    expect_alike(derivatives([&](const auto& x) { return op.ours(x[0], target); }, logits),
                 derivatives([&](const auto& x) { return op.eager(x[0], target); }, logits));
    const Tensors of_linear = {at::randn({4, 3}, at::kDouble), at::randn({5, 3}, at::kDouble),
                               at::randn({5}, at::kDouble)};
    expect_alike(
        derivatives([&](const auto& x) { return op.ours_of_linear(x, target); }, of_linear),
        derivatives([&](const auto& x) { return op.eager_of_linear(x, target); }, of_linear));
  }
}

/// Input, weight and bias of a linear layer whose logits are about 1.
Tensors random_linear(int64_t rows, int64_t width, int64_t classes, at::ScalarType dtype) {
  const double scale = 2 / std::sqrt(static_cast<double>(width));
  return to(
      {at::randn({rows, width}, at::kDouble), at::randn({classes, width}, at::kDouble).mul(scale),
       at::randn({classes}, at::kDouble)},
      dtype);
}

TEST(LossTest, ErrorsOfLinearAreNotAboveEagers) {
  for (const Case& op : kCases) {
    for (const at::ScalarType dtype : {at::kFloat, at::kHalf, at::kBFloat16}) {
      const Tensors inputs = random_linear(150, 70, 901, dtype);
      const at::Tensor target = random_target(150, 901, op.ignore_index);
      // Another factor is a rounding more (loss.h).
      const at::Tensor grad =
          op.reduction == "none" ? random_gradient(op, 150, dtype) : at::full({}, 0.5, dtype);
      const auto ours = [&](const Tensors& x) { return op.ours_of_linear(x, target); };
      const auto eager = [&](const Tensors& x) { return op.eager_of_linear(x, target); };
      const Tensors mine = loss_and_gradients(ours, inputs, grad);
      const Tensors theirs = loss_and_gradients(eager, inputs, grad);
      const Tensors wide = loss_and_gradients(eager, to(inputs, at::kDouble), grad.to(at::kDouble));
      for (size_t k = 0; k < wide.size(); ++k) {
        // One number is right by chance too, and the products in float are the same.
        const double chance = dtype == at::kFloat ? 1e-7 * wide[k].abs().max().item<double>() : 0;
        EXPECT_LE(mean_error(mine[k], wide[k]), 1.001 * mean_error(theirs[k], wide[k]) + chance)
            << op << dtype << " result " << k;
      }
    }
  }
}

TEST(LossTest, ErrorsOfManyPartsAreNotAboveEagers) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const Tensors inputs = random_linear(2000, 16, 20'000, dtype);
    const at::Tensor target = random_target(2000, 20'000, -100);
    const at::Tensor grad = at::full({}, 2, at::kDouble);
    const auto ours = [&](const Tensors& x) { return kCases[0].ours_of_linear(x, target); };
    const auto eager = [&](const Tensors& x) { return kCases[0].eager_of_linear(x, target); };
    const Tensors mine = loss_and_gradients(ours, inputs, grad);
    const Tensors theirs = loss_and_gradients(eager, inputs, grad);
    const Tensors wide = loss_and_gradients(eager, to(inputs, at::kDouble), grad);
    for (size_t k = 0; k < wide.size(); ++k) {
      const double chance = dtype == at::kFloat ? 1e-7 * wide[k].abs().max().item<double>() : 0;
      EXPECT_LE(mean_error(mine[k], wide[k]), mean_error(theirs[k], wide[k]) + chance)
          << dtype << " result " << k;
    }
  }
}

TEST(LossTest, ASecondBackwardOverTheSameGraphAgrees) {
  for (const at::ScalarType dtype : {at::kFloat, at::kHalf}) {
    const Tensors x = leaves(random_linear(9, 8, 70, dtype));
    const at::Tensor target = random_target(9, 70, -100);
    const at::Tensor loss = ops::linear_cross_entropy(x[0], x[1], target, x[2]);
    const auto gradients = [&](double grad) {
      return torch::autograd::grad({loss}, x, {at::full({}, grad, dtype)}, /*retain_graph=*/true);
    };
    const Tensors first = gradients(3);
    const Tensors kept = to(first, at::kDouble);
    const Tensors second = gradients(-1.5);
    for (size_t k = 0; k < first.size(); ++k) {
      const at::Tensor scaled = second[k].to(at::kDouble).mul(-2);
      const double tolerance = dtype == at::kHalf ? 2e-3 : 1e-6;
      EXPECT_TRUE(scaled.allclose(kept[k], tolerance, tolerance)) << k;
      EXPECT_TRUE(first[k].to(at::kDouble).equal(kept[k])) << k;
    }
  }
}

TEST(LossTest, OnlyTheGradientsThatAreAskedForAreGiven) {
  const at::Tensor target = random_target(6, 9, -100);
  for (const std::string reduction : {"mean", "none"}) {
    for (size_t needed = 0; needed < 3; ++needed) {
      const Tensors x = random_linear(6, 4, 9, at::kDouble);
      x[needed].requires_grad_();
      ops::linear_cross_entropy(x[0], x[1], target, x[2], reduction).sum().backward();
      const Tensors all = leaves(x);
      const at::Tensor expected =
          at::cross_entropy_loss(at::linear(all[0], all[1], all[2]), target, {},
                                 reduction == "mean" ? at::Reduction::Mean : at::Reduction::Sum);
      expected.backward();
      for (size_t k = 0; k < 3; ++k) {
        EXPECT_EQ(x[k].grad().defined(), k == needed) << reduction << k;
        if (k != needed) continue;
        EXPECT_TRUE(x[k].grad().allclose(all[k].grad())) << reduction << k;
      }
    }
  }
}

TEST(LossTest, TheLossMayBeWiderThanTheLogits) {
  const at::Tensor logits = random_logits(30, 500, at::kBFloat16).requires_grad_();
  const at::Tensor target = random_target(30, 500, -100);
  const at::Tensor loss = ops::cross_entropy(logits, target, "mean", -100, 0, 0, at::kFloat);
  EXPECT_EQ(loss.scalar_type(), at::kFloat);
  const at::Tensor exact = at::cross_entropy_loss(logits.to(at::kDouble), target);
  EXPECT_LT(std::abs(loss.item<double>() - exact.item<double>()), 2e-6);
  loss.backward();
  EXPECT_EQ(logits.grad().scalar_type(), at::kBFloat16);
}

TEST(LossTest, PartsOfRowsNeedNoCopy) {
  const at::Tensor logits = random_logits(64, 3000, at::kFloat);
  const at::Tensor target = random_target(64, 1000, -100);
  const at::Tensor part = logits.chunk(3, 1)[1];
  EXPECT_TRUE(
      ops::cross_entropy(part, target).equal(ops::cross_entropy(part.contiguous(), target)));
  const at::Tensor every_second = random_target(128, 1000, -100).slice(0, 0, {}, 2);
  EXPECT_TRUE(ops::cross_entropy(part, every_second)
                  .equal(ops::cross_entropy(part, every_second.contiguous())));
}

TEST(LossTest, ThreadsCallAtOnceAndTheSumsAreTheSame) {
  const Tensors inputs = random_linear(200, 30, 1000, at::kFloat);
  const at::Tensor target = random_target(200, 1000, -100);
  const auto run = [&] {
    return loss_and_gradients([&](const auto& x) { return kCases[3].ours_of_linear(x, target); },
                              inputs, at::ones({}));
  };
  const Tensors expected = run();
  std::vector<std::thread> threads;
  std::vector<char> equal(4);
  threads.reserve(equal.size());
  for (char& result : equal) {
    threads.emplace_back([&] {
      const Tensors actual = run();
      result = std::equal(actual.begin(), actual.end(), expected.begin(),
                          [](const auto& a, const auto& b) { return a.allclose(b); });
    });
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

TEST(LossTest, BadArgumentsAreNamed) {
  const at::Tensor x = at::ones({2, 3});
  const at::Tensor target = at::zeros({2}, at::kLong);
  expect_error<c10::TypeError>(
      "scramjet::cross_entropy: argument 'logits' has dtype Long; expected",
      [&] { ops::cross_entropy(x.to(at::kLong), target); });
  expect_error<c10::ValueError>(
      "scramjet::cross_entropy: argument 'logits' has shape [2, 3, 1]; expected [N, C]: where the "
      "classes are last, give logits.flatten(0, -2)",
      [&] { ops::cross_entropy(x.unsqueeze(2), target); });
  expect_error<c10::TypeError>(
      "scramjet::cross_entropy: argument 'target' has dtype Float; expected Long class indices",
      [&] { ops::cross_entropy(x, x); });
  expect_error<c10::ValueError>(
      "scramjet::cross_entropy: argument 'target' has shape [1]; expected a class for each row of "
      "'logits', whose shape is [2, 3]",
      [&] { ops::cross_entropy(x, target.slice(0, 1)); });
  expect_error<c10::ValueError>(
      "scramjet::cross_entropy: argument 'reduction' is 'max'; expected 'none', 'mean' or 'sum'",
      [&] { ops::cross_entropy(x, target, "max"); });
  expect_error<c10::ValueError>(
      "scramjet::cross_entropy: argument 'label_smoothing' is 2; expected 0 to 1",
      [&] { ops::cross_entropy(x, target, "mean", -100, 2); });
  expect_error<c10::TypeError>(
      "scramjet::cross_entropy: argument 'dtype' is Half; expected that of the logits, Float",
      [&] { ops::cross_entropy(x, target, "mean", -100, 0, 0, at::kHalf); });
  for (const int64_t bad : {-1, 3}) {
    expect_error<c10::IndexError>("scramjet::cross_entropy: argument 'target' has class",
                                  [&] { ops::cross_entropy(x, at::full({2}, bad, at::kLong)); });
    expect_error<c10::IndexError>(
        "scramjet::linear_cross_entropy: argument 'target' has class", [&] {
          ops::linear_cross_entropy(x, at::ones({3, 3}), at::full({2}, bad, at::kLong));
        });
  }
  expect_error<c10::ValueError>(
      "scramjet::linear_cross_entropy: argument 'weight' has shape [2, 2]; expected [C, D] for an "
      "'input' of shape [2, 3]",
      [&] {
        ops::linear_cross_entropy(x, at::ones({2, 2}), target);
      });
  expect_error<c10::TypeError>(
      "scramjet::linear_cross_entropy: argument 'weight' has dtype Double; expected that of",
      [&] { ops::linear_cross_entropy(x, x.to(at::kDouble), target); });
  expect_error<c10::ValueError>(
      "scramjet::linear_cross_entropy: argument 'bias' has shape [3]; expected [C]",
      [&] { ops::linear_cross_entropy(x, x, target, at::ones({3})); });
  expect_error<c10::ValueError>(
      "scramjet::cross_entropy_backward: argument 'grad_output' has shape [2]; expected", [&] {
        ops::cross_entropy_backward(at::ones({2}), x, target, at::ones({2}, at::kDouble), "mean",
                                    -100, 0, 0);
      });
  expect_error<c10::NotImplementedError>(
      "scramjet::cross_entropy: argument 'logits' is a Sparse tensor on cpu",
      [&] { ops::cross_entropy(x.to_sparse(), target); });
}

}  // namespace
}  // namespace scramjet::ops
