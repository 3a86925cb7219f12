#include "ops/rope/rope.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "ops/rope/rope_cpu_kernel.h"

namespace scramjet::ops {
namespace {

using Tensors = std::vector<at::Tensor>;

const at::ScalarType kFloating[] = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16};

struct Tables {
  at::Tensor cos;
  at::Tensor sin;

  Tables to(at::ScalarType dtype) const { return {cos.to(dtype), sin.to(dtype)}; }
};

/// Those of the paper, with base 10000.
Tables tables(int64_t max_positions, int64_t pairs, at::ScalarType dtype) {
  const at::Tensor exponents = at::arange(pairs, at::kDouble).div(static_cast<double>(pairs));
  const at::Tensor angles =
      at::arange(max_positions, at::kDouble).unsqueeze(1).mul(at::pow(1e4, exponents.neg()));
  return Tables{angles.cos(), angles.sin()}.to(dtype);
}

/// Each (a, b) times cos, and (-b, a) times sin: as transformers' apply_rotary_pos_emb.
at::Tensor eager(const at::Tensor& x, const Tables& tables, const at::Tensor& positions = {},
                 bool interleaved = false, int64_t sequence_dim = -2) {
  const int64_t pairs = tables.cos.size(1);
  const int64_t axis = sequence_dim + x.dim();
  const at::Tensor at = positions.defined() ? positions : at::arange(x.size(axis));
  const auto gather = [&](const at::Tensor& table) {
    at::Tensor rows = table.index({at});
    std::vector<int64_t> sizes(x.dim(), 1);
    if (at.dim() == 2) sizes[0] = x.size(0);
    sizes[axis] = x.size(axis);
    sizes.back() = pairs;
    rows = rows.reshape(sizes);
    return interleaved ? rows.repeat_interleave(2, -1) : at::cat({rows, rows}, -1);
  };
  const at::Tensor rotated = x.slice(-1, 0, 2 * pairs);
  at::Tensor crossed;
  if (interleaved) {
    crossed =
        at::stack({rotated.slice(-1, 1, {}, 2).neg(), rotated.slice(-1, 0, {}, 2)}, -1).flatten(-2);
  } else {
    crossed = at::cat({rotated.slice(-1, pairs).neg(), rotated.slice(-1, 0, pairs)}, -1);
  }
  const at::Tensor turned = rotated.mul(gather(tables.cos)).add(crossed.mul(gather(tables.sin)));
  return at::cat({turned, x.slice(-1, 2 * pairs)}, -1);
}

at::Tensor ours(const at::Tensor& x, const Tables& tables, const at::Tensor& positions = {},
                bool interleaved = false, int64_t sequence_dim = -2, bool inverse = false) {
  return ops::rope(x, tables.cos, tables.sin, positions, interleaved, sequence_dim, inverse);
}

/// The output of `function`, and the gradient of x.
template <typename Function>
Tensors output_and_gradient(const Function& function, const at::Tensor& x, const at::Tensor& grad) {
  const at::Tensor leaf = x.detach().requires_grad_();
  const at::Tensor output = function(leaf);
  return {output, torch::autograd::grad({output}, {leaf}, {grad})[0]};
}

double mean_error(const at::Tensor& actual, const at::Tensor& oracle) {
  return actual.to(at::kDouble).sub(oracle).abs().mean().item<double>();
}

double tolerance(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return 1e-12;
    case at::kHalf:
      return 4e-3;
    case at::kBFloat16:
      return 3e-2;
    default:
      return 1e-6;
  }
}

bool close(const at::Tensor& actual, const at::Tensor& oracle, double tolerance) {
  return actual.to(at::kDouble).allclose(oracle.to(at::kDouble), tolerance, tolerance, true);
}

TEST(RopeTest, ErrorsAreNotAboveEagers) {
  for (const at::ScalarType dtype : {at::kFloat, at::kHalf, at::kBFloat16}) {
    for (const bool interleaved : {false, true}) {
      const Tables t = tables(300, 40, dtype);
      const at::Tensor x = at::randn({3, 257, 96}, at::kDouble).to(dtype);
      const at::Tensor grad = at::randn({3, 257, 96}, at::kDouble).to(dtype);
      const Tensors mine = output_and_gradient(
          [&](const auto& in) { return ours(in, t, {}, interleaved); }, x, grad);
      const Tensors theirs = output_and_gradient(
          [&](const auto& in) { return eager(in, t, {}, interleaved); }, x, grad);
      const Tensors wide = output_and_gradient(
          [&](const auto& in) { return eager(in, t.to(at::kDouble), {}, interleaved); },
          x.to(at::kDouble), grad.to(at::kDouble));
      for (size_t k = 0; k < wide.size(); ++k) {
        EXPECT_LE(mean_error(mine[k], wide[k]), mean_error(theirs[k], wide[k]))
            << dtype << interleaved << k;
      }
    }
  }
}

TEST(RopeTest, EveryNumberOfPairsAgreesWithDouble) {
  for (int64_t pairs = 0; pairs < 100; pairs += pairs < 70 ? 1 : 9) {
    for (const int64_t rest : {0, 1, 5}) {
      for (const at::ScalarType dtype : kFloating) {
        for (const bool interleaved : {false, true}) {
          if (2 * pairs + rest == 0) continue;
          const Tables t = tables(3, pairs, dtype);
          const at::Tensor x = at::randn({2, 3, 2 * pairs + rest}, at::kDouble).to(dtype);
          const at::Tensor grad = at::randn({2, 3, 2 * pairs + rest}, at::kDouble).to(dtype);
          const Tensors mine = output_and_gradient(
              [&](const auto& in) { return ours(in, t, {}, interleaved); }, x, grad);
          const Tensors wide = output_and_gradient(
              [&](const auto& in) { return eager(in, t.to(at::kDouble), {}, interleaved); },
              x.to(at::kDouble), grad.to(at::kDouble));
          for (size_t k = 0; k < wide.size(); ++k) {
            EXPECT_TRUE(close(mine[k], wide[k], tolerance(dtype)))
                << pairs << " " << rest << dtype << interleaved << k;
          }
        }
      }
    }
  }
}

TEST(RopeTest, EveryLayoutAndKindOfPositionsAgreesWithDouble) {
  const Tables t = tables(50, 8, at::kFloat);
  const Tables wide = t.to(at::kDouble);
  const at::Tensor x = at::randn({2, 5, 3, 20});  // [batch, sequence, heads, head_dim]
  const at::Tensor projection = at::randn({2, 5, 3, 60});
  const Tensors inputs = {x,
                          x.transpose(0, 1).contiguous().transpose(0, 1),
                          x.transpose(1, 2).contiguous().transpose(1, 2),
                          projection.chunk(3, -1)[1],
                          x.slice(2, 0, 1).expand({2, 5, 3, 20}),
                          x.repeat_interleave(2, -1).slice(-1, 0, {}, 2)};
  const at::Tensor of_batch = at::randint(50, {2, 5}, at::kLong);
  for (const at::Tensor& positions :
       {at::Tensor(), of_batch[0], of_batch, of_batch.to(at::kInt), of_batch.slice(0, 0, 1)[0],
        at::randint(50, {5, 2}, at::kLong).t(),
        at::randint(50, {10}, at::kInt).slice(0, 0, {}, 2)}) {
    for (const at::Tensor& input : inputs) {
      const at::Tensor expected = eager(input.to(at::kDouble), wide, positions, false, -3);
      const at::Tensor actual = ours(input, t, positions, false, -3);
      EXPECT_TRUE(actual.is_contiguous());
      EXPECT_TRUE(close(actual, expected, 1e-6));
      EXPECT_TRUE(actual.equal(ours(input, t, positions, false, 1)));
      EXPECT_TRUE(close(ours(input.transpose(1, 2), t, positions), expected.transpose(1, 2), 1e-6));
    }
  }
  const at::Tensor y = at::randn({7, 20});
  EXPECT_TRUE(close(ours(y, t), eager(y.to(at::kDouble), wide), 1e-6));
  const at::Tensor first = at::randn({7, 2, 3, 20});
  EXPECT_TRUE(close(ours(first, t, {}, true, 0), eager(first, wide, {}, true, -4), 1e-6));
}

TEST(RopeTest, MoreDimensionsThanAKernelTakesStillWork) {
  const Tables t = tables(2, 2, at::kFloat);
  const at::Tensor x = at::randn({2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 4})
                           .permute({10, 8, 6, 4, 2, 0, 1, 3, 5, 7, 9, 11});
  EXPECT_TRUE(close(ours(x, t, {}, false, 4), eager(x, t, {}, false, -8), 1e-6));
}

TEST(RopeTest, HalfTakesTablesInFloat) {
  for (const at::ScalarType dtype : {at::kHalf, at::kBFloat16}) {
    const Tables t = tables(40, 33, at::kFloat);
    const at::Tensor x = at::randn({3, 40, 70}, at::kDouble).to(dtype);
    const at::Tensor y = ours(x, t);
    EXPECT_EQ(y.scalar_type(), dtype);
    EXPECT_TRUE(y.equal(eager(x.to(at::kFloat), t).to(dtype)) ||
                close(y, eager(x.to(at::kDouble), t.to(at::kDouble)), tolerance(dtype)));
  }
}

TEST(RopeTest, EveryBuildThatThisCpuRunsAgreesWithDouble) {
  decltype(&DEFAULT::rope_rows)
      const builds[] = {DEFAULT::rope_rows, AVX2::rope_rows, AVX512::rope_rows};
  for (const at::ScalarType dtype : kFloating) {
    for (const bool interleaved : {false, true}) {
      const Tables t = tables(5, 75, dtype);
      const at::Tensor x = at::randn({5, 160}, at::kDouble).to(dtype);
      const at::Tensor oracle = eager(x.to(at::kDouble), t.to(at::kDouble), {}, interleaved);
      for (int build = 0; build <= static_cast<int>(cpu_capability()); ++build) {
        const at::Tensor output = at::empty({5, 160}, dtype);
        RopeRows rows;
        rows.head_dim = 160;
        rows.pairs = 75;
        rows.input = static_cast<const char*>(x.const_data_ptr());
        rows.output = static_cast<char*>(output.mutable_data_ptr());
        rows.dims = 1;
        rows.sizes[0] = 5;
        rows.input_strides[0] = 160;
        rows.position_strides[0] = 1;
        rows.cos = static_cast<const char*>(t.cos.const_data_ptr());
        rows.sin = static_cast<const char*>(t.sin.const_data_ptr());
        builds[build](dtype, dtype, interleaved)(rows, 0, 5);
        EXPECT_TRUE(close(output, oracle, tolerance(dtype))) << dtype << interleaved << build;
      }
    }
  }
}

TEST(RopeTest, TheInverseTurnsBack) {
  const Tables t = tables(9, 6, at::kDouble);
  const at::Tensor x = at::randn({4, 9, 13}, at::kDouble);
  for (const bool interleaved : {false, true}) {
    const at::Tensor y = ours(x, t, {}, interleaved);
    EXPECT_TRUE(close(ours(y, t, {}, interleaved, -2, /*inverse=*/true), x, 1e-12));
    // What attention sees of two positions is how far they are apart.
    EXPECT_TRUE(close(y.norm(), x.norm(), 1e-12));
  }
}

TEST(RopeTest, SpecialNumbersAreThoseOfEager) {
  const Tables t = tables(6, 20, at::kFloat);
  for (const double special :
       {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
        std::numeric_limits<double>::quiet_NaN(), 0.0, 1e-40, 6e4}) {
    at::Tensor x = at::randn({2, 6, 44});
    x.select(1, 3).select(-1, 7).fill_(special);
    x.select(-1, 42).fill_(special);
    EXPECT_TRUE(close(ours(x, t), eager(x, t), 1e-5)) << special;
    EXPECT_TRUE(close(ours(x, t, {}, true), eager(x, t, {}, true), 1e-5)) << special;
  }
}

TEST(RopeTest, SecondDerivativesAreThoseOfAten) {
  const Tables t = tables(5, 2, at::kDouble);
  const at::Tensor x = at::randn({2, 5, 6}, at::kDouble);
  const auto second = [&](const auto& function) {
    const at::Tensor leaf = x.detach().requires_grad_();
    const at::Tensor gradient =
        torch::autograd::grad({function(leaf, t).pow(3).sum()}, {leaf}, {}, {}, true)[0];
    return torch::autograd::grad({gradient.square().sum()}, {leaf})[0];
  };
  EXPECT_TRUE(second([](const auto& in, const auto& of) {
                return ours(in, of);
              }).allclose(second([](const auto& in, const auto& of) { return eager(in, of); })));
}

TEST(RopeTest, TablesMayHaveGradients) {
  const at::Tensor x = at::randn({2, 5, 6}, at::kDouble);
  const auto gradients = [&](const auto& function) {
    Tables t = tables(7, 2, at::kDouble);
    t.cos.requires_grad_();
    t.sin.requires_grad_();
    return torch::autograd::grad({function(x, t).pow(3).sum()}, {t.cos, t.sin});
  };
  const Tensors mine = gradients([](const auto& in, const auto& of) { return ours(in, of); });
  const Tensors theirs = gradients([](const auto& in, const auto& of) { return eager(in, of); });
  EXPECT_TRUE(mine[0].allclose(theirs[0]));
  EXPECT_TRUE(mine[1].allclose(theirs[1]));
}

TEST(RopeTest, EmptyTensorsWork) {
  const Tables t = tables(7, 2, at::kFloat);
  for (const auto& [heads, sequence] : {std::pair{0, 7}, {3, 0}, {0, 0}}) {
    const at::Tensor x = at::zeros({heads, sequence, 4});
    const Tensors mine = output_and_gradient([&](const auto& in) { return ours(in, t); }, x, x);
    EXPECT_TRUE(mine[0].equal(x));
    EXPECT_TRUE(mine[1].equal(x));
  }
}

TEST(RopeTest, ThreadsCallAtOnce) {
  const Tables t = tables(1000, 32, at::kFloat);
  const at::Tensor x = at::randn({8, 1000, 64});
  const at::Tensor expected = ours(x, t);
  std::vector<std::thread> threads;
  std::vector<char> equal(4);
  threads.reserve(equal.size());
  for (char& result : equal) {
    threads.emplace_back([&] { result = ours(x, t).equal(expected); });
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

TEST(RopeTest, BadArgumentsAreNamed) {
  const Tables t = tables(7, 2, at::kFloat);
  const at::Tensor x = at::ones({2, 7, 4});
  expect_error<c10::TypeError>("scramjet::rope: argument 'input' has dtype Long; expected",
                               [&] { ours(x.to(at::kLong), t); });
  expect_error<c10::TypeError>(
      "scramjet::rope: argument 'cos' has dtype Double; expected that of 'input', Float",
      [&] { ours(x, t.to(at::kDouble)); });
  expect_error<c10::TypeError>("argument 'sin' has dtype Double; expected that of 'cos', Float",
                               [&] { ops::rope(x, t.cos, t.sin.to(at::kDouble)); });
  expect_error<c10::ValueError>("argument 'input' has shape [4]; expected at least 2 dimensions",
                                [&] { ours(at::ones({4}), t); });
  expect_error<c10::ValueError>("argument 'cos' has shape [2]; expected [max_positions, rotary",
                                [&] { ops::rope(x, t.cos[0], t.sin[0]); });
  expect_error<c10::ValueError>("argument 'cos' has shape [7, 2]; expected at most half as many",
                                [&] { ours(x.slice(-1, 0, 3), t); });
  expect_error<c10::ValueError>(
      "argument 'cos' has shape [7, 2]; expected a row for each of the 8 positions of 'input'",
      [&] {
        ours(at::ones({8, 4}), t);
      });
  for (const int64_t dim : {2, -1, -4}) {
    expect_error<c10::ValueError>("expected a dimension of 'input', [2, 7, 4], but the last",
                                  [&] { ours(x, t, {}, false, dim); });
  }
  expect_error<c10::TypeError>("argument 'positions' has dtype Float; expected Long or Int",
                               [&] { ours(x, t, at::ones({7})); });
  expect_error<c10::ValueError>(
      "argument 'positions' has shape [3, 7]; expected [sequence] or [batch, sequence]", [&] {
        ours(x, t, at::zeros({3, 7}, at::kLong));
      });
  for (const int64_t position : {-1, 7}) {
    expect_error<c10::ValueError>("expected positions that 'cos' has a row for, 0 to 6",
                                  [&] { ours(x, t, at::full({7}, position, at::kLong)); });
  }
  expect_error<c10::NotImplementedError>(
      "scramjet::rope: argument 'input' is a Sparse tensor on cpu",
      [&] { ours(x.to_sparse(), t); });
}

}  // namespace
}  // namespace scramjet::ops
