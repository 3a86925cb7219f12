#include "ops/norm/norm.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "ops/norm/norm_cpu_kernel.h"

namespace scramjet::ops {
namespace {

using Tensors = std::vector<at::Tensor>;

/// One of the four norms: inputs are x, then the residual, the weight and the bias where it has
/// them.
struct Case {
  const char* name;
  bool has_residual;
  bool is_layer;

  size_t inputs() const { return 2 + (has_residual ? 1 : 0) + (is_layer ? 1 : 0); }
  const at::Tensor& weight(const Tensors& inputs) const { return inputs[has_residual ? 2 : 1]; }

  Tensors ours(const Tensors& in) const {
    const auto shape = c10::fromIntArrayRefSlow(weight(in).sizes());
    if (has_residual) {
      const auto [output, sum] = is_layer
                                     ? ops::add_layer_norm(in[0], in[1], shape, in[2], in[3], kEps)
                                     : ops::add_rms_norm(in[0], in[1], shape, in[2], kEps);
      return {output, sum};
    }
    return {is_layer ? ops::layer_norm(in[0], shape, in[1], in[2], kEps)
                     : ops::rms_norm(in[0], shape, in[1], kEps)};
  }

  Tensors eager(const Tensors& in) const {
    const at::Tensor x = has_residual ? in[0].add(in[1]) : in[0];
    const at::Tensor& w = weight(in);
    const at::Tensor output = is_layer ? at::layer_norm(x, w.sizes(), w, in.back(), kEps)
                                       : at::rms_norm(x, w.sizes(), w, kEps);
    return has_residual ? Tensors{output, x} : Tensors{output};
  }

  static constexpr double kEps = 1e-5;
};

const Case kCases[] = {{"rms_norm", false, false},
                       {"layer_norm", false, true},
                       {"add_rms_norm", true, false},
                       {"add_layer_norm", true, true}};

const at::ScalarType kFloating[] = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16};

/// Rows about 0.5, weights about 1.
Tensors random_inputs(const Case& op, int64_t rows, int64_t columns, at::ScalarType dtype) {
  Tensors inputs = {at::randn({rows, columns}, at::kDouble).add(0.5).to(dtype)};
  if (op.has_residual) inputs.push_back(at::randn({rows, columns}, at::kDouble).to(dtype));
  inputs.push_back(at::rand({columns}, at::kDouble).add(0.5).to(dtype));
  if (op.is_layer) inputs.push_back(at::randn({columns}, at::kDouble).to(dtype));
  return inputs;
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

/// The outputs of `function`, one of Case's, then the gradients of the inputs.
template <typename Function>
Tensors outputs_and_gradients(const Function& function, const Tensors& inputs,
                              const Tensors& grad_outputs) {
  const Tensors x = leaves(inputs);
  Tensors results = function(x);
  const Tensors gradients = torch::autograd::grad(results, x, grad_outputs);
  results.insert(results.end(), gradients.begin(), gradients.end());
  return results;
}

/// For each output of `op`.
Tensors random_gradients(const Case& op, const at::Tensor& x) {
  const auto random = [&] { return at::rand(x.sizes(), at::kDouble).add(0.5).to(x.scalar_type()); };
  return op.has_residual ? Tensors{random(), random()} : Tensors{random()};
}

double largest_error(const at::Tensor& actual, const at::Tensor& oracle) {
  return actual.to(at::kDouble).sub(oracle).abs().max().item<double>();
}

double mean_error(const at::Tensor& actual, const at::Tensor& oracle) {
  return actual.to(at::kDouble).sub(oracle).abs().mean().item<double>();
}

TEST(NormTest, ErrorsAreNotAboveEagers) {
  for (const Case& op : kCases) {
    for (const at::ScalarType dtype : {at::kFloat, at::kHalf, at::kBFloat16}) {
      const Tensors inputs = random_inputs(op, 257, 1531, dtype);
      const Tensors grads = random_gradients(op, inputs[0]);
      const auto ours = [&](const Tensors& x) { return op.ours(x); };
      const auto eager = [&](const Tensors& x) { return op.eager(x); };
      const Tensors mine = outputs_and_gradients(ours, inputs, grads);
      const Tensors theirs = outputs_and_gradients(eager, inputs, grads);
      const Tensors wide =
          outputs_and_gradients(eager, to(inputs, at::kDouble), to(grads, at::kDouble));
      for (size_t k = 0; k < wide.size(); ++k) {
        // Half and bfloat16 hold the same numbers but for a few ties.
        EXPECT_LE(mean_error(mine[k], wide[k]), 1.001 * mean_error(theirs[k], wide[k]))
            << op.name << " " << dtype << " result " << k;
      }
    }
  }
}

TEST(NormTest, EverySmallSizeAndStrideAgreesWithDouble) {
  for (const Case& op : kCases) {
    for (int64_t columns = 1; columns < 140; columns += columns < 70 ? 1 : 7) {
      for (const int64_t stride : {1, 2}) {
        Tensors inputs = random_inputs(op, 3, columns, at::kFloat);
        inputs[0] = at::randn({3, columns * stride}).slice(1, 0, {}, stride);
        const Tensors grads = random_gradients(op, inputs[0]);
        const Tensors mine =
            outputs_and_gradients([&](const auto& x) { return op.ours(x); }, inputs, grads);
        const Tensors wide = outputs_and_gradients([&](const auto& x) { return op.eager(x); },
                                                   to(inputs, at::kDouble), to(grads, at::kDouble));
        for (size_t k = 0; k < wide.size(); ++k) {
          // A row of one or two numbers may have hardly any variance.
          EXPECT_TRUE(mine[k].to(at::kDouble).allclose(wide[k], 1e-4, columns < 4 ? 1e-1 : 1e-4))
              << op.name << " " << columns << " result " << k << mine[k] << wide[k];
        }
      }
    }
  }
}

/// What the kernels take for a matrix.
Rows rows_of(const at::Tensor& x) {
  return {static_cast<char*>(x.mutable_data_ptr()), x.stride(0)};
}

TEST(NormTest, EveryBuildThatThisCpuRunsAgreesWithDouble) {
  decltype(&DEFAULT::rms_norm_rows) const forwards[][3] = {
      {DEFAULT::rms_norm_rows, AVX2::rms_norm_rows, AVX512::rms_norm_rows},
      {DEFAULT::layer_norm_rows, AVX2::layer_norm_rows, AVX512::layer_norm_rows}};
  decltype(&DEFAULT::rms_norm_backward_rows)
      const backwards[][3] = {{DEFAULT::rms_norm_backward_rows, AVX2::rms_norm_backward_rows,
                               AVX512::rms_norm_backward_rows},
                              {DEFAULT::layer_norm_backward_rows, AVX2::layer_norm_backward_rows,
                               AVX512::layer_norm_backward_rows}};
  for (const Case& op : {kCases[0], kCases[1]}) {
    for (const at::ScalarType dtype : kFloating) {
      const Tensors inputs = random_inputs(op, 5, 1003, dtype);
      const at::Tensor grad = random_gradients(op, inputs[0])[0];
      const Tensors wide = outputs_and_gradients([&](const auto& x) { return op.eager(x); },
                                                 to(inputs, at::kDouble), {grad.to(at::kDouble)});
      for (int build = 0; build <= static_cast<int>(cpu_capability()); ++build) {
        const at::Tensor output = at::empty({5, 1003}, dtype);
        NormRows rows;
        rows.columns = 1003;
        rows.eps = Case::kEps;
        rows.input = rows_of(inputs[0]);
        rows.weight = static_cast<const char*>(inputs[1].const_data_ptr());
        if (op.is_layer) rows.bias = static_cast<const char*>(inputs[2].const_data_ptr());
        rows.output = rows_of(output);
        forwards[op.is_layer ? 1 : 0][build](dtype, dtype)(rows, 0, 5);

        const at::ScalarType sums = dtype == at::kDouble ? at::kDouble : at::kFloat;
        const Tensors gradients = {at::empty({5, 1003}, dtype), at::zeros({1003}, sums),
                                   at::zeros({1003}, sums)};
        NormBackwardRows backward;
        backward.columns = 1003;
        backward.eps = Case::kEps;
        backward.grad_output = rows_of(grad);
        backward.input = rows.input;
        backward.weight = rows.weight;
        backward.grad_input = rows_of(gradients[0]);
        backward.grad_weight = static_cast<char*>(gradients[1].mutable_data_ptr());
        if (op.is_layer) backward.grad_bias = static_cast<char*>(gradients[2].mutable_data_ptr());
        backwards[op.is_layer ? 1 : 0][build](dtype, dtype)(backward, 0, 5);

        const double tolerance = dtype == at::kBFloat16 ? 1e-2 : dtype == at::kHalf ? 2e-3 : 1e-5;
        EXPECT_TRUE(output.to(at::kDouble).allclose(wide[0], tolerance, tolerance))
            << op.name << dtype << build;
        for (size_t k = 1; k < wide.size(); ++k) {
          EXPECT_TRUE(gradients[k - 1].to(at::kDouble).allclose(wide[k], tolerance, tolerance))
              << op.name << dtype << build << " gradient " << k - 1;
        }
      }
    }
  }
}

TEST(NormTest, SpecialRowsAreThoseOfEager) {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Case& op : kCases) {
    for (const double special : {inf, -inf, nan, 0.0, 1e-30, 60000.0}) {
      for (const at::ScalarType dtype : kFloating) {
        Tensors inputs = random_inputs(op, 3, 75, at::kDouble);
        inputs[0].select(0, 1).fill_(0).select(0, 40).fill_(special);
        if (op.has_residual) inputs[1].zero_();
        inputs = to(inputs, dtype);
        const at::Tensor expected = op.eager(to(inputs, at::kDouble))[0];
        EXPECT_TRUE(op.ours(inputs)[0].to(at::kDouble).allclose(expected, 2e-2, 2e-2, true))
            << op.name << special << dtype;
      }
    }
  }
}

TEST(NormTest, RowsFarFromZeroKeepTheirVariance) {
  const at::Tensor x = at::randn({4, 5000}).add(10'000);
  const at::Tensor expected = at::layer_norm(x.to(at::kDouble), {5000});
  EXPECT_LT(largest_error(ops::layer_norm(x, {5000}), expected), 1e-4);
  const at::Tensor constant = at::full({3, 5000}, 12'345.678F);
  EXPECT_LT(ops::layer_norm(constant, {5000}).abs().max().item<float>(), 1e-3);
}

TEST(NormTest, RowsThatBeginFarFromTheirMeanLoseNoDigits) {
  const Case& op = kCases[1];
  Tensors inputs = random_inputs(op, 64, 4099, at::kFloat);
  inputs[0].slice(1, 0, 40).add_(100);
  const Tensors grads = random_gradients(op, inputs[0]);
  const auto eager = [&](const Tensors& x) { return op.eager(x); };
  const Tensors mine =
      outputs_and_gradients([&](const auto& x) { return op.ours(x); }, inputs, grads);
  const Tensors theirs = outputs_and_gradients(eager, inputs, grads);
  const Tensors wide =
      outputs_and_gradients(eager, to(inputs, at::kDouble), to(grads, at::kDouble));
  for (size_t k = 0; k < wide.size(); ++k) {
    EXPECT_LE(mean_error(mine[k], wide[k]), mean_error(theirs[k], wide[k])) << "result " << k;
  }
}

TEST(NormTest, LongRowsLoseNoDigits) {
  const at::Tensor x = at::rand({1, 10'000'000});
  const at::Tensor expected = at::rms_norm(x.to(at::kDouble), {10'000'000});
  EXPECT_LT(largest_error(ops::rms_norm(x, {10'000'000}), expected), 5e-7);
}

TEST(NormTest, FirstAndSecondDerivativesAreThoseOfAten) {
  for (const Case& op : kCases) {
    const Tensors inputs = random_inputs(op, 3, 4, at::kDouble);
    const auto derivatives = [&](const auto& function) {
      const Tensors x = leaves(inputs);
      at::Tensor loss = at::zeros({}, at::kDouble);
      for (const at::Tensor& y : function(x)) loss = loss.add(y.pow(3).sum());
      Tensors results = torch::autograd::grad({loss}, x, {}, {}, /*create_graph=*/true);
      at::Tensor squares = at::zeros({}, at::kDouble);
      for (const at::Tensor& gradient : results) squares = squares.add(gradient.square().sum());
      const Tensors second = torch::autograd::grad({squares}, x, {}, {}, true);
      results.insert(results.end(), second.begin(), second.end());
      return results;
    };
    const Tensors ours = derivatives([&](const auto& x) { return op.ours(x); });
    const Tensors theirs = derivatives([&](const auto& x) { return op.eager(x); });
    for (size_t k = 0; k < ours.size(); ++k) {
      EXPECT_TRUE(ours[k].allclose(theirs[k], 1e-9, 1e-11)) << op.name << k;
    }
  }
}

TEST(NormTest, OneOutputOfTwoMayBeWithoutGradient) {
  for (const Case& op : {kCases[2], kCases[3]}) {
    for (const size_t used : {0, 1}) {
      const Tensors inputs = random_inputs(op, 4, 33, at::kDouble);
      const auto gradient = [&](const auto& function) {
        const Tensors x = leaves(inputs);
        return torch::autograd::grad({function(x)[used].square().sum()}, {x[0]})[0];
      };
      EXPECT_TRUE(gradient([&](const auto& x) {
                    return op.ours(x);
                  }).allclose(gradient([&](const auto& x) {
        return op.eager(x);
      }))) << op.name
           << used;
    }
  }
}

TEST(NormTest, OnlyTheGradientsThatAreAskedForAreGiven) {
  const at::Tensor x = at::randn({3, 5});
  const at::Tensor weight = at::ones({5}).requires_grad_();
  const at::Tensor bias = at::zeros({5});
  ops::layer_norm(x, {5}, weight, bias).sum().backward();
  EXPECT_TRUE(weight.grad().defined());
  EXPECT_FALSE(x.grad().defined());
  EXPECT_FALSE(bias.grad().defined());
}

TEST(NormTest, ParametersMayBeAbsentOrWider) {
  const at::Tensor x = at::randn({6, 40}, at::kBFloat16);
  const at::Tensor weight = at::rand({40}).requires_grad_();
  const at::Tensor y = ops::rms_norm(x, {40}, weight);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(y.to(at::kFloat).allclose(at::rms_norm(x.to(at::kFloat), {40}, weight), 1e-2, 1e-3));
  y.sum().backward();
  EXPECT_EQ(weight.grad().scalar_type(), at::kFloat);

  const at::Tensor bias = at::randn({40}, at::kBFloat16);
  EXPECT_TRUE(
      ops::layer_norm(x, {40}, {}, bias).allclose(at::layer_norm(x, {40}).add(bias), 1e-1, 1e-1));
  EXPECT_TRUE(ops::layer_norm(x, {40}).allclose(at::layer_norm(x, {40}), 1e-1, 1e-2));
  EXPECT_TRUE(ops::rms_norm(x, {40}).allclose(at::rms_norm(x, {40}), 1e-1, 1e-2));
}

TEST(NormTest, TheEpsilonOfRmsNormIsThatOfTheComputeType) {
  for (const at::ScalarType dtype : kFloating) {
    const at::Tensor x = at::full({1, 16}, 1e-4, dtype);
    EXPECT_TRUE(ops::rms_norm(x, {16}).allclose(at::rms_norm(x, {16}), 1e-2)) << dtype;
  }
}

TEST(NormTest, SeveralDimensionsAreNormalizedAtOnce) {
  const at::Tensor x = at::randn({2, 3, 4, 5});
  const at::Tensor weight = at::rand({4, 5});
  EXPECT_TRUE(ops::layer_norm(x, {4, 5}, weight, weight)
                  .allclose(at::layer_norm(x, {4, 5}, weight, weight), 1e-5, 1e-5));
  EXPECT_TRUE(ops::rms_norm(x, {2, 3, 4, 5}).allclose(at::rms_norm(x, {2, 3, 4, 5}), 1e-5, 1e-5));
}

TEST(NormTest, PartsOfAProjectionNeedNoCopy) {
  const at::Tensor projection = at::randn({64, 12288});
  const at::Tensor part = projection.chunk(3, -1)[1];
  const at::Tensor y = ops::rms_norm(part, {4096});
  EXPECT_TRUE(y.equal(ops::rms_norm(part.contiguous(), {4096})));
  EXPECT_TRUE(y.is_contiguous());
}

TEST(NormTest, EmptyTensorsWork) {
  for (const auto& [rows, columns] : {std::pair{0, 8}, {3, 0}, {0, 0}}) {
    for (const Case& op : kCases) {
      const Tensors inputs = random_inputs(op, rows, columns, at::kFloat);
      const Tensors results = outputs_and_gradients([&](const auto& x) { return op.ours(x); },
                                                    inputs, random_gradients(op, inputs[0]));
      const size_t outputs = op.has_residual ? 2 : 1;
      for (size_t k = 0; k < inputs.size(); ++k) {
        EXPECT_TRUE(results[outputs + k].equal(at::zeros(inputs[k].sizes()))) << op.name << k;
      }
    }
  }
}

TEST(NormTest, ThreadsCallAtOnceAndTheSumsAreTheSame) {
  const Case& op = kCases[3];
  const Tensors inputs = random_inputs(op, 500, 1000, at::kFloat);
  const Tensors grads = random_gradients(op, inputs[0]);
  const auto run = [&] {
    return outputs_and_gradients([&](const auto& x) { return op.ours(x); }, inputs, grads);
  };
  const Tensors expected = run();
  std::vector<std::thread> threads;
  std::vector<char> equal(4);
  threads.reserve(equal.size());
  for (char& result : equal) {
    threads.emplace_back([&] {
      const Tensors actual = run();
      result = std::equal(actual.begin(), actual.end(), expected.begin(),
                          [](const auto& a, const auto& b) { return a.equal(b); });
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

TEST(NormTest, BadArgumentsAreNamed) {
  const at::Tensor x = at::ones({2, 3});
  expect_error<c10::TypeError>("scramjet::rms_norm: argument 'input' has dtype Long; expected",
                               [&] {
                                 ops::rms_norm(at::zeros({2, 3}, at::kLong), {3});
                               });
  expect_error<c10::TypeError>(
      "scramjet::layer_norm: argument 'weight' has dtype Double; expected that of 'input', Float",
      [&] { ops::layer_norm(x, {3}, at::ones({3}, at::kDouble)); });
  expect_error<c10::TypeError>(
      "scramjet::layer_norm: argument 'bias' has dtype Half; expected that of 'weight', Float",
      [&] { ops::layer_norm(x.to(at::kHalf), {3}, at::ones({3}), at::ones({3}, at::kHalf)); });
  expect_error<c10::ValueError>(
      "scramjet::add_rms_norm: argument 'residual' has shape [3]; expected that of 'input', [2, 3]",
      [&] { ops::add_rms_norm(x, at::ones({3}), {3}); });
  expect_error<c10::ValueError>(
      "scramjet::rms_norm: argument 'normalized_shape' is []; expected at least one dimension",
      [&] { ops::rms_norm(x, {}); });
  expect_error<c10::ValueError>(
      "scramjet::rms_norm: argument 'normalized_shape' is [2]; expected the last dimensions of "
      "'input', whose shape is [2, 3]",
      [&] { ops::rms_norm(x, {2}); });
  expect_error<c10::ValueError>(
      "scramjet::rms_norm: argument 'normalized_shape' is [1, 2, 3]; expected", [&] {
        ops::rms_norm(x, {1, 2, 3});
      });
  expect_error<c10::ValueError>(
      "scramjet::rms_norm: argument 'weight' has shape [2]; expected 'normalized_shape', [3]",
      [&] { ops::rms_norm(x, {3}, at::ones({2})); });
  expect_error<c10::ValueError>(
      "scramjet::rms_norm_backward: argument 'grad_output' has shape [3]; expected that of 'input'",
      [&] { ops::rms_norm_backward(at::ones({3}), {}, x, {3}); });
  expect_error<c10::NotImplementedError>(
      "scramjet::rms_norm: argument 'input' is a Sparse tensor on cpu",
      [&] { ops::rms_norm(x.to_sparse(), {3}); });
}

}  // namespace
}  // namespace scramjet::ops
