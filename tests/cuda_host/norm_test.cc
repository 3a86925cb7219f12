#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <limits>
#include <ostream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ops/norm/norm_cuda_kernel.h"
#include "tests/cuda_host/grid_execution.h"

// The kernels of ops/norm/norm_cuda.cu, run on the CPU, against ATen's norms: what
// ops/norm/norm_test.cc asks of the CPU kernels.
namespace scramjet::ops {
namespace {

using Tensors = std::vector<at::Tensor>;

constexpr double kEps = 1e-5;

CudaDtype cuda_dtype(at::ScalarType dtype) {
  if (dtype == at::kDouble) return CudaDtype::kDouble;
  if (dtype == at::kHalf) return CudaDtype::kHalf;
  return dtype == at::kBFloat16 ? CudaDtype::kBFloat16 : CudaDtype::kFloat;
}

char* data_of(const at::Tensor& x) {
  return x.defined() ? static_cast<char*>(x.mutable_data_ptr()) : nullptr;
}

Rows rows_of(const at::Tensor& x) { return x.defined() ? Rows{data_of(x), x.stride(0)} : Rows(); }

/// A norm over the rows of matrices. Undefined: without.
struct Problem {
  bool is_layer = false;
  at::Tensor input;
  at::Tensor residual;
  at::Tensor weight;
  at::Tensor bias;
  at::Tensor grad_output;
  at::Tensor grad_sum;

  int64_t columns() const { return input.size(1); }

  at::ScalarType parameters() const {
    if (weight.defined()) return weight.scalar_type();
    return bias.defined() ? bias.scalar_type() : input.scalar_type();
  }

  NormLaunch launch() const {
    return {cuda_dtype(input.scalar_type()), cuda_dtype(parameters()), is_layer, input.size(0),
            nullptr};
  }
};

std::ostream& operator<<(std::ostream& out, const Problem& problem) {
  return out << (problem.residual.defined() ? "add_" : "") << (problem.is_layer ? "layer" : "rms")
             << "_norm " << problem.input.toString() << problem.input.sizes()
             << (problem.weight.defined() ? " weight" : "")
             << (problem.bias.defined() ? " bias" : "");
}

at::Tensor empty_like_input(const Problem& problem) {
  return at::empty(problem.input.sizes(), problem.input.options());
}

/// The output; the sum with the residual, the gradients of the input, the weight and the bias where
/// there are any.
Tensors kernels(const Problem& problem, int64_t splits = 1) {
  NormRows rows;
  rows.columns = problem.columns();
  rows.eps = kEps;
  rows.input = rows_of(problem.input);
  rows.residual = rows_of(problem.residual);
  rows.weight = data_of(problem.weight);
  rows.bias = data_of(problem.bias);
  Tensors results = {empty_like_input(problem)};
  rows.output = rows_of(results[0]);
  if (problem.residual.defined()) {
    results.push_back(empty_like_input(problem));
    rows.sum = rows_of(results[1]);
  }
  launch_norm(problem.launch(), rows);
  if (!problem.grad_output.defined()) return results;

  // As norm_cuda.cc prepares them.
  const bool is_double = problem.input.scalar_type() == at::kDouble;
  const auto wide = problem.input.options().dtype(is_double ? at::kDouble : at::kFloat);
  NormBackwardRows backward;
  backward.columns = rows.columns;
  backward.eps = kEps;
  backward.grad_output = rows_of(problem.grad_output);
  backward.grad_sum = rows_of(problem.grad_sum);
  backward.input = problem.residual.defined() ? rows.sum : rows.input;
  backward.weight = rows.weight;
  results.push_back(empty_like_input(problem));
  backward.grad_input = rows_of(results.back());
  const at::Tensor moments = at::full({3, problem.input.size(0)}, 1e30, wide);
  NormBackwardRoom room;
  room.splits = splits;
  const at::Tensor weight_sums = at::zeros({splits, rows.columns}, wide);
  const at::Tensor bias_sums = at::zeros({splits, rows.columns}, wide);
  if (problem.weight.defined()) backward.grad_weight = data_of(weight_sums);
  if (problem.bias.defined()) backward.grad_bias = data_of(bias_sums);
  if (problem.weight.defined() || problem.bias.defined()) {
    room.center = data_of(moments);
    room.rstd = data_of(moments.select(0, 1));
    room.shift = data_of(moments.select(0, 2));
  }
  launch_norm_backward(problem.launch(), backward, room);
  const at::ScalarType parameters = problem.parameters();
  if (problem.weight.defined()) results.push_back(weight_sums.sum(0).to(parameters));
  if (problem.bias.defined()) results.push_back(bias_sums.sum(0).to(parameters));
  return results;
}

at::Tensor to(const at::Tensor& x, at::ScalarType dtype) { return x.defined() ? x.to(dtype) : x; }

/// The same from ATen, computed in `dtype`. The sum with the residual is rounded to the input's
/// own.
Tensors eager(const Problem& problem, at::ScalarType dtype) {
  Tensors leaves;
  const auto leaf = [&](const at::Tensor& x) {
    if (!x.defined()) return x;
    leaves.push_back(x.to(dtype, /*non_blocking=*/false, /*copy=*/true).requires_grad_());
    return leaves.back();
  };
  const bool has_sum = problem.residual.defined();
  const at::Tensor x = leaf(has_sum ? problem.input.add(problem.residual) : problem.input);
  const at::Tensor weight = leaf(problem.weight);
  const at::Tensor bias = leaf(problem.bias);
  const at::IntArrayRef shape = problem.input.sizes().slice(1);
  Tensors results = {problem.is_layer ? at::layer_norm(x, shape, weight, bias, kEps)
                                      : at::rms_norm(x, shape, weight, kEps)};
  if (has_sum) results.push_back(x);
  if (!problem.grad_output.defined()) return results;
  Tensors grads = {problem.grad_output.to(dtype)};
  if (problem.grad_sum.defined()) grads.push_back(problem.grad_sum.to(dtype));
  const Tensors outputs(results.begin(), results.begin() + static_cast<int64_t>(grads.size()));
  const Tensors gradients = torch::autograd::grad(outputs, leaves, grads);
  results.insert(results.end(), gradients.begin(), gradients.end());
  return results;
}

/// Inputs about 0.5, weights about 1.
Problem random_problem(bool is_layer, bool has_residual, int64_t rows, int64_t columns,
                       at::ScalarType dtype) {
  const auto normal = [&] { return at::randn({rows, columns}, at::kDouble).to(dtype); };
  const auto positive = [&](at::IntArrayRef sizes) {
    return at::rand(sizes, at::kDouble).add(0.5).to(dtype);
  };
  Problem problem;
  problem.is_layer = is_layer;
  problem.input = normal().add(0.5);
  problem.weight = positive({columns});
  if (is_layer) problem.bias = at::randn({columns}, at::kDouble).to(dtype);
  problem.grad_output = positive({rows, columns});
  if (has_residual) {
    problem.residual = normal();
    problem.grad_sum = positive({rows, columns});
  }
  return problem;
}

double mean_error(const at::Tensor& actual, const at::Tensor& oracle) {
  return actual.to(at::kDouble).sub(oracle).abs().mean().item<double>();
}

double largest_error(const at::Tensor& actual, const at::Tensor& oracle) {
  return actual.to(at::kDouble).sub(oracle).abs().max().item<double>();
}

/// `tolerance`, relative and absolute, in float and double.
void expect_close_to_double(const Problem& problem, double tolerance, int64_t splits = 1) {
  const at::ScalarType dtype = problem.input.scalar_type();
  if (dtype == at::kHalf) tolerance = std::max(tolerance, 4e-3);
  if (dtype == at::kBFloat16) tolerance = std::max(tolerance, 4e-2);
  const Tensors mine = kernels(problem, splits);
  const Tensors wide = eager(problem, at::kDouble);
  ASSERT_EQ(mine.size(), wide.size());
  for (size_t k = 0; k < wide.size(); ++k) {
    EXPECT_TRUE(mine[k].to(at::kDouble).allclose(wide[k], tolerance, tolerance, true))
        << problem << " result " << k << ": " << largest_error(mine[k], wide[k]);
  }
}

/// For each of the four norms.
template <typename Body>
void for_each_norm(const Body& body) {
  for (const bool is_layer : {false, true}) {
    for (const bool has_residual : {false, true}) body(is_layer, has_residual);
  }
}

constexpr at::ScalarType kFloating[] = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16};

TEST(NormOnHostTest, ErrorsAreNotAboveEagers) {
  for_each_norm([](bool is_layer, bool has_residual) {
    for (const at::ScalarType dtype : {at::kFloat, at::kHalf, at::kBFloat16}) {
      for (const int64_t columns : {187, 1536}) {
        const Problem problem = random_problem(is_layer, has_residual, 150, columns, dtype);
        const Tensors mine = kernels(problem, 2);
        const Tensors theirs = eager(problem, dtype);
        const Tensors wide = eager(problem, at::kDouble);
        for (size_t k = 0; k < wide.size(); ++k) {
          // Half and bfloat16 hold the same numbers but for a few ties; in float a row's numbers
          // share the rounding of one root, and 150 roots are few.
          const double noise = dtype == at::kFloat ? 1.05 : 1.001;
          EXPECT_LE(mean_error(mine[k], wide[k]), noise * mean_error(theirs[k], wide[k]))
              << problem << " result " << k;
        }
      }
    }
  });
}

TEST(NormOnHostTest, EverySmallSizeAgreesWithDouble) {
  for_each_norm([](bool is_layer, bool has_residual) {
    for (const at::ScalarType dtype : kFloating) {
      for (int64_t columns = 2; columns < 80; columns += columns < 20 ? 1 : 6) {
        expect_close_to_double(random_problem(is_layer, has_residual, 5, columns, dtype),
                               columns < 6 ? 1e-2 : 1e-4);
      }
    }
  });
}

/// The same numbers, `offset` elements behind an aligned address and `gap` elements between rows.
at::Tensor with_strides(const at::Tensor& x, int64_t offset, int64_t gap) {
  if (!x.defined()) return x;
  const bool is_matrix = x.dim() == 2;
  const int64_t row = x.size(-1) + (is_matrix ? gap : 0);
  const int64_t rows = is_matrix ? x.size(0) : 1;
  at::Tensor room =
      at::full({rows * row + offset}, std::numeric_limits<double>::quiet_NaN(), x.options());
  room = is_matrix ? room.as_strided(x.sizes(), {row, 1}, offset)
                   : room.as_strided(x.sizes(), {1}, offset);
  return room.copy_(x);
}

TEST(NormOnHostTest, OffsetsAndGapsBetweenRowsAreKept) {
  for_each_norm([](bool is_layer, bool has_residual) {
    for (const at::ScalarType dtype : kFloating) {
      const Problem dense = random_problem(is_layer, has_residual, 7, 96, dtype);
      // Of each operand in turn, then of all.
      for (int which = 0; which < 7; ++which) {
        for (const auto& [offset, gap] : {std::pair<int64_t, int64_t>{1, 0}, {0, 1}, {8, 16}}) {
          Problem problem = dense;
          at::Tensor* const operands[] = {&problem.input, &problem.residual, &problem.weight,
                                          &problem.bias,  &problem.grad_sum, &problem.grad_output};
          for (int k = 0; k < 6; ++k) {
            if (which == 6 || which == k) *operands[k] = with_strides(*operands[k], offset, gap);
          }
          expect_close_to_double(problem, 1e-4);
        }
      }
    }
  });
}

TEST(NormOnHostTest, ManyRowsAndOneLongRow) {
  for_each_norm([](bool is_layer, bool has_residual) {
    for (const auto& [rows, columns, splits] :
         {std::tuple<int64_t, int64_t, int64_t>{1001, 12, 7}, {1, 20'000, 1}, {3, 4097, 2}}) {
      const Problem problem = random_problem(is_layer, has_residual, rows, columns, at::kFloat);
      expect_close_to_double(problem, 2e-4, splits);
    }
  });
}

TEST(NormOnHostTest, TheOrderOfThreadsChangesNothing) {
  for_each_norm([](bool is_layer, bool has_residual) {
    for (const int64_t columns : {33, 700, 2056}) {
      const Problem problem = random_problem(is_layer, has_residual, 20, columns, at::kFloat);
      const Tensors forward = kernels(problem, 3);
      cuda_host::set_order(cuda_host::Order::kBackward);
      const Tensors backward = kernels(problem, 3);
      cuda_host::set_order(cuda_host::Order::kForward);
      for (size_t k = 0; k < forward.size(); ++k) {
        EXPECT_TRUE(forward[k].equal(backward[k])) << problem << " result " << k;
      }
    }
  });
}

TEST(NormOnHostTest, ParametersMayBeAbsentOrWider) {
  for (const at::ScalarType dtype : kFloating) {
    for (const int64_t columns : {51, 128}) {
      for (const bool is_layer : {false, true}) {
        for (const bool has_weight : {false, true}) {
          for (const bool has_bias : {false, true}) {
            Problem problem = random_problem(is_layer, false, 6, columns, dtype);
            if (!has_weight) problem.weight.reset();
            if (!has_bias) problem.bias.reset();
            expect_close_to_double(problem, 1e-4);
            if (at::elementSize(dtype) > 2) continue;
            problem.weight = to(problem.weight, at::kFloat);
            problem.bias = to(problem.bias, at::kFloat);
            expect_close_to_double(problem, 1e-4);
          }
        }
      }
    }
  }
}

TEST(NormOnHostTest, SpecialRowsAreThoseOfEager) {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for_each_norm([&](bool is_layer, bool has_residual) {
    for (const double special : {inf, -inf, nan, 0.0, 1e-30, 60000.0}) {
      for (const at::ScalarType dtype : kFloating) {
        Problem problem = random_problem(is_layer, has_residual, 3, 72, dtype);
        problem.grad_output.reset();
        problem.grad_sum.reset();
        problem.input.select(0, 1).fill_(0).select(0, 40).fill_(special);
        if (has_residual) problem.residual.zero_();
        const at::Tensor expected = eager(problem, at::kDouble)[0];
        EXPECT_TRUE(kernels(problem)[0].to(at::kDouble).allclose(expected, 2e-2, 2e-2, true))
            << problem << special;
      }
    }
  });
}

Problem plain_layer_norm(const at::Tensor& x) {
  Problem problem;
  problem.is_layer = true;
  problem.input = x;
  return problem;
}

TEST(NormOnHostTest, RowsFarFromZeroKeepTheirVariance) {
  const Problem far = plain_layer_norm(at::randn({4, 5000}).add(10'000));
  EXPECT_LT(largest_error(kernels(far)[0], eager(far, at::kDouble)[0]), 1e-4);
  const Problem constant = plain_layer_norm(at::full({3, 5000}, 12'345.678F));
  EXPECT_LT(kernels(constant)[0].abs().max().item<float>(), 1e-3);
}

TEST(NormOnHostTest, GradientsFarFromZeroLoseNoDigits) {
  for (const at::ScalarType dtype : {at::kFloat, at::kHalf}) {
    Problem problem = random_problem(true, false, 64, 4099, dtype);
    problem.input = at::randn({64, 4099}).add(dtype == at::kFloat ? 10'000 : 100).to(dtype);
    const Tensors mine = kernels(problem);
    const Tensors theirs = eager(problem, dtype);
    const Tensors wide = eager(problem, at::kDouble);
    for (size_t k = 0; k < wide.size(); ++k) {
      EXPECT_LE(mean_error(mine[k], wide[k]), 1.01 * mean_error(theirs[k], wide[k]))
          << problem << " result " << k;
    }
  }
}

TEST(NormOnHostTest, LongRowsLoseNoDigits) {
  Problem problem;
  problem.input = at::rand({1, 1'000'000});
  EXPECT_LT(largest_error(kernels(problem)[0], eager(problem, at::kDouble)[0]), 5e-7);
}

}  // namespace
}  // namespace scramjet::ops
