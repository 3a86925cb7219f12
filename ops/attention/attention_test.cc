#include "ops/attention/attention.h"

#include <ATen/Parallel.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <limits>
#include <string>
#include <vector>

#include "ops/attention/aten_attention.h"

namespace scramjet::ops {
namespace {

using Tensors = std::vector<at::Tensor>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const at::ScalarType kFloating[] = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16};

struct Sizes {
  int64_t heads;
  int64_t key_heads;
  int64_t queries;
  int64_t keys;
  int64_t dim;
  int64_t value_dim;
};

std::ostream& operator<<(std::ostream& out, const Sizes& s) {
  return out << s.heads << " " << s.key_heads << " " << s.queries << " " << s.keys << " " << s.dim
             << " " << s.value_dim;
}

/// Less, as much as and more than a tile of queries (48) and of keys (256), and rows that are not
/// whole vectors.
const Sizes kSizes[] = {{1, 1, 1, 1, 8, 8},       {4, 2, 5, 7, 16, 16},     {2, 2, 50, 300, 64, 64},
                        {4, 2, 100, 100, 64, 40}, {2, 1, 60, 530, 80, 96},  {8, 2, 1, 600, 64, 64},
                        {2, 2, 49, 17, 3, 5},     {1, 1, 97, 513, 128, 128}};

const AttentionOptions kOptions[] = {{},
                                     {.causal = true},
                                     {.scale = 0.3, .causal = true, .window_left = 20},
                                     {.window_left = 3, .window_right = 5},
                                     {.scale = -0.2},
                                     {.scale = 0.0}};

Tensors random_inputs(const Sizes& s, at::ScalarType dtype) {
  const auto random = [&](int64_t heads, int64_t rows, int64_t columns) {
    return at::randn({2, heads, rows, columns}, at::kDouble).to(dtype);
  };
  return {random(s.heads, s.queries, s.dim), random(s.key_heads, s.keys, s.dim),
          random(s.key_heads, s.keys, s.value_dim)};
}

Tensors to(const Tensors& tensors, at::ScalarType dtype) {
  Tensors result;
  for (const at::Tensor& x : tensors) result.push_back(x.to(dtype));
  return result;
}

/// ATen's formula in double.
AttentionOutputs exact(const Tensors& inputs, const at::Tensor& mask,
                       const AttentionOptions& options) {
  const Tensors wide = to(inputs, at::kDouble);
  const bool is_added = mask.defined() && mask.scalar_type() != at::kBool;
  const at::Tensor wide_mask = is_added ? mask.to(at::kDouble) : mask;
  return aten_attention({"exact", wide[0], wide[1], wide[2], wide_mask, options});
}

/// Those of the sum of all results times `weights`, after the results.
template <typename Call>
Tensors with_gradients(const Call& call, const Tensors& inputs, const Tensors& weights) {
  Tensors leaves;
  for (const at::Tensor& x : inputs) leaves.push_back(x.detach().requires_grad_());
  Tensors results = call(leaves);
  Tensors seeds;
  for (size_t i = 0; i < results.size(); ++i) {
    seeds.push_back(weights[i].to(results[i].scalar_type()));
  }
  const Tensors gradients = torch::autograd::grad(results, leaves, seeds);
  results.insert(results.end(), gradients.begin(), gradients.end());
  for (at::Tensor& x : results) x = x.detach();
  return results;
}

Tensors outputs(const Tensors& in, const at::Tensor& mask, const AttentionOptions& options) {
  const auto [output, logsumexp] =
      attention(in[0], in[1], in[2], mask.defined() ? std::optional(mask) : std::nullopt, options);
  return {output, logsumexp};
}

Tensors exact_outputs(const Tensors& in, const at::Tensor& mask, const AttentionOptions& options) {
  const AttentionOutputs result = exact(in, mask, options);
  return {result.output, result.logsumexp};
}

double mean_error(const at::Tensor& x, const at::Tensor& exact) {
  return x.to(at::kDouble).sub(exact).abs().mean().item<double>();
}

double tolerance(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return 1e-12;
    case at::kFloat:
      return 2e-5;
    case at::kHalf:
      return 1e-2;
    default:
      return 4e-2;
  }
}

void expect_exact(const Tensors& inputs, const at::Tensor& mask, const AttentionOptions& options,
                  const std::string& what) {
  const at::ScalarType dtype = inputs[0].scalar_type();
  const Tensors seen = outputs(inputs, mask, options);
  const Tensors weights = {at::randn(seen[0].sizes(), at::kDouble).to(dtype).to(at::kDouble),
                           at::randn(seen[1].sizes(), at::kDouble)};
  const Tensors mine = with_gradients([&](const Tensors& in) { return outputs(in, mask, options); },
                                      inputs, weights);
  const Tensors wide =
      with_gradients([&](const Tensors& in) { return exact_outputs(in, mask, options); },
                     to(inputs, at::kDouble), weights);
  ASSERT_EQ(mine[0].scalar_type(), dtype);
  for (size_t i = 0; i < wide.size(); ++i) {
    EXPECT_TRUE(mine[i].to(at::kDouble).allclose(wide[i], tolerance(dtype), tolerance(dtype)))
        << what << " " << dtype << " result " << i;
  }
}

std::string describe(const Sizes& sizes, size_t options) {
  return (std::ostringstream() << sizes << " options " << options).str();
}

TEST(AttentionTest, EverySizeAndWindowAgreesWithDouble) {
  for (const Sizes& sizes : kSizes) {
    for (size_t i = 0; i < std::size(kOptions); ++i) {
      for (const at::ScalarType dtype : kFloating) {
        // Windows and scales are those of float.
        if (dtype != at::kFloat && i > 1) continue;
        expect_exact(random_inputs(sizes, dtype), {}, kOptions[i], describe(sizes, i));
      }
    }
  }
}

TEST(AttentionTest, EveryKindOfMaskAgreesWithDouble) {
  for (const at::ScalarType dtype : kFloating) {
    for (const Sizes& s : {kSizes[1], kSizes[2], kSizes[5]}) {
      const Tensors inputs = random_inputs(s, dtype);
      expect_exact(inputs, at::rand({2, 1, s.queries, s.keys}).gt(0.4), {}, describe(s, 0));
      expect_exact(inputs, at::rand({s.keys}).gt(0.4), {.causal = true}, describe(s, 1));
      expect_exact(inputs, at::randn({2, s.heads, 1, s.keys}).to(dtype), {.scale = -0.3},
                   describe(s, 2));
      expect_exact(inputs, at::randn({s.keys, s.queries}).to(dtype).t(), {.causal = true},
                   describe(s, 3));
      if (dtype != at::kDouble) {
        expect_exact(inputs, at::randn({s.heads, s.queries, s.keys}), {}, describe(s, 4));
      }
    }
  }
}

TEST(AttentionTest, ErrorsAreNotAboveEagers) {
  const Sizes sizes{4, 4, 300, 300, 64, 64};
  for (const at::ScalarType dtype : {at::kFloat, at::kHalf, at::kBFloat16}) {
    for (const bool causal : {false, true}) {
      const Tensors inputs = random_inputs(sizes, dtype);
      const Tensors weights = {at::randn(inputs[0].sizes(), at::kDouble).to(dtype)};
      const AttentionOptions options{.causal = causal};
      const Tensors mine = with_gradients(
          [&](const Tensors& in) { return Tensors{outputs(in, {}, options)[0]}; }, inputs, weights);
      const Tensors theirs = with_gradients(
          [&](const Tensors& in) {
            return Tensors{at::scaled_dot_product_attention(in[0], in[1], in[2], {}, 0, causal)};
          },
          inputs, weights);
      const Tensors wide = with_gradients(
          [&](const Tensors& in) { return Tensors{exact_outputs(in, {}, options)[0]}; },
          to(inputs, at::kDouble), weights);
      for (size_t i = 0; i < wide.size(); ++i) {
        EXPECT_LE(mean_error(mine[i], wide[i]), 1.001 * mean_error(theirs[i], wide[i]))
            << dtype << " causal " << causal << " result " << i;
      }
    }
  }
}

TEST(AttentionTest, TheLogarithmOfTheSumIsThatOfEager) {
  const Tensors in = random_inputs({2, 2, 70, 300, 64, 64}, at::kFloat);
  const auto eager =
      std::get<1>(at::_scaled_dot_product_flash_attention_for_cpu(in[0], in[1], in[2], 0, false));
  EXPECT_TRUE(outputs(in, {}, {})[1].allclose(eager, 1e-5, 1e-5));
}

TEST(AttentionTest, AQueryThatSeesNoKeyGivesZero) {
  const Tensors in = random_inputs({1, 1, 6, 4, 16, 16}, at::kFloat);
  at::Tensor mask = at::rand({6, 4}).gt(-1);
  mask.select(0, 3).fill_(false);
  for (const at::Tensor& kind :
       {mask, at::zeros({6, 4}).masked_fill(mask.logical_not(), -kInfinity)}) {
    const Tensors mine =
        with_gradients([&](const Tensors& x) { return Tensors{outputs(x, kind, {})[0]}; }, in,
                       {at::randn({2, 1, 6, 16})});
    EXPECT_TRUE(mine[0].select(2, 3).eq(0).all().item<bool>());
    for (const at::Tensor& x : mine) EXPECT_TRUE(x.isfinite().all().item<bool>());
    EXPECT_TRUE(outputs(in, kind, {})[1].select(2, 3).eq(-kInfinity).all().item<bool>());
  }
  // Of 6 queries and 4 keys the first two stand before all keys.
  const Tensors causal = outputs(in, {}, {.causal = true});
  EXPECT_TRUE(causal[0].slice(2, 0, 2).eq(0).all().item<bool>());
  EXPECT_TRUE(causal[1].slice(2, 0, 2).eq(-kInfinity).all().item<bool>());
  EXPECT_TRUE(causal[0].slice(2, 2).ne(0).any(-1).all().item<bool>());
}

TEST(AttentionTest, NanStaysInItsRow) {
  Tensors in = random_inputs({1, 1, 60, 300, 16, 16}, at::kFloat);
  in[0].select(2, 7).fill_(std::numeric_limits<double>::quiet_NaN());
  const at::Tensor is_nan = outputs(in, {}, {})[0].isnan().any(-1);
  EXPECT_TRUE(is_nan.select(2, 7).all().item<bool>());
  EXPECT_EQ(is_nan.sum().item<int64_t>(), 2);
  // The first query sees one key, whose score alone is not hidden.
  in = random_inputs({1, 1, 300, 300, 16, 16}, at::kFloat);
  in[1].select(2, 0).fill_(std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(outputs(in, {}, {.causal = true})[0].isnan().all().item<bool>());
}

TEST(AttentionTest, LargeScoresDoNotOverflow) {
  for (const at::ScalarType dtype : kFloating) {
    Tensors in = random_inputs({1, 1, 50, 300, 32, 32}, dtype);
    in[0].mul_(100);
    const at::Tensor mine = outputs(in, {}, {})[0];
    EXPECT_TRUE(
        mine.to(at::kDouble)
            .allclose(exact(in, {}, {}).output, 10 * tolerance(dtype), 10 * tolerance(dtype)))
        << dtype;
  }
}

TEST(AttentionTest, PartsOfAProjectionAndOtherStridesAgree) {
  const at::Tensor projection = at::randn({2, 70, 3, 4, 32});
  Tensors parts;
  for (const at::Tensor& x : projection.unbind(2)) parts.push_back(x.transpose(1, 2));
  Tensors dense;
  for (const at::Tensor& x : parts) dense.push_back(x.contiguous());
  EXPECT_TRUE(outputs(parts, {}, {})[0].equal(outputs(dense, {}, {})[0]));
  Tensors sparse;
  for (const at::Tensor& x : dense) {
    sparse.push_back(at::empty({2, 4, 32, 70}).transpose(-1, -2).copy_(x));
  }
  EXPECT_TRUE(outputs(sparse, {}, {})[0].equal(outputs(dense, {}, {})[0]));
  const at::Tensor shared = at::randn({2, 1, 70, 32}).expand({2, 4, 70, 32});
  EXPECT_TRUE(outputs({dense[0], shared, shared}, {}, {})[0].equal(
      outputs({dense[0], shared.contiguous(), shared.contiguous()}, {}, {})[0]));
}

TEST(AttentionTest, SequencesOfAnyLengthsAreThoseAlone) {
  const std::vector<int64_t> query_starts = {0, 3, 3, 60, 61, 130};
  const std::vector<int64_t> key_starts = {0, 300, 301, 301, 380, 441};
  for (const at::ScalarType dtype : kFloating) {
    for (const AttentionOptions& options :
         {AttentionOptions{}, AttentionOptions{.causal = true, .window_left = 20}}) {
      const Tensors in = {at::randn({130, 4, 24}).to(dtype), at::randn({441, 2, 24}).to(dtype),
                          at::randn({441, 2, 40}).to(dtype)};
      const Tensors weights = {at::randn({130, 4, 40}).to(dtype), at::randn({4, 130})};
      const Tensors together = with_gradients(
          [&](const Tensors& x) {
            const auto [output, logsumexp] =
                attention_varlen(x[0], x[1], x[2], at::tensor(query_starts),
                                 at::tensor(key_starts).to(at::kInt), options);
            return Tensors{output, logsumexp};
          },
          in, weights);
      EXPECT_TRUE(together[0].is_contiguous());
      const Tensors alone = with_gradients(
          [&](const Tensors& x) {
            Tensors rows;
            Tensors logs;
            for (size_t i = 0; i + 1 < query_starts.size(); ++i) {
              const auto part = [](const at::Tensor& y, const std::vector<int64_t>& starts,
                                   size_t k) {
                return y.slice(0, starts[k], starts[k + 1]).transpose(0, 1).unsqueeze(0);
              };
              const auto [output, logsumexp] =
                  attention(part(x[0], query_starts, i), part(x[1], key_starts, i),
                            part(x[2], key_starts, i), {}, options);
              rows.push_back(output.squeeze(0).transpose(0, 1));
              logs.push_back(logsumexp.squeeze(0));
            }
            return Tensors{at::cat(rows), at::cat(logs, 1)};
          },
          in, weights);
      for (size_t i = 0; i < alone.size(); ++i) {
        EXPECT_TRUE(together[i].allclose(alone[i], tolerance(dtype), tolerance(dtype)))
            << dtype << " result " << i;
      }
    }
  }
}

TEST(AttentionTest, BadStartsAreNamed) {
  const at::Tensor x = at::randn({5, 2, 8});
  const auto message = [&](const at::Tensor& starts, const at::Tensor& key_starts) {
    try {
      attention_varlen(x, x, x, starts, key_starts);
    } catch (const c10::Error& error) {
      return std::string(error.what_without_backtrace());
    }
    return std::string("no error");
  };
  const at::Tensor good = at::tensor({0, 2, 5});
  EXPECT_EQ(
      message(at::tensor({0, 2, 4}), good),
      "scramjet::attention_varlen: argument 'query_starts' goes from 0 to 4; expected numbers "
      "that never fall, from 0 to 5");
  EXPECT_EQ(message(good, at::tensor({0, 6, 5})),
            "scramjet::attention_varlen: argument 'key_starts' goes from 0 to 5; expected numbers "
            "that never fall, from 0 to 5");
  EXPECT_EQ(message(good, at::tensor({0, 5})),
            "scramjet::attention_varlen: argument 'key_starts' has shape [2]; expected that of "
            "'query_starts', [3]");
  EXPECT_EQ(message(good, at::tensor({0.0, 2.0, 5.0})),
            "scramjet::attention_varlen: argument 'key_starts' has dtype Double; expected Int or "
            "Long");
}

TEST(AttentionTest, EmptyTensorsWork) {
  const auto sizes = [](const at::Tensor& x) { return x.sizes().vec(); };
  using Shape = std::vector<int64_t>;
  const at::Tensor none = at::empty({0, 2, 3, 4});
  EXPECT_EQ(sizes(outputs({none, none, none}, {}, {})[0]), Shape({0, 2, 3, 4}));
  const at::Tensor query = at::randn({1, 2, 3, 4});
  const at::Tensor no_keys = at::empty({1, 2, 0, 4});
  const Tensors seen =
      with_gradients([&](const Tensors& in) { return Tensors{outputs(in, {}, {})[0]}; },
                     {query, no_keys, no_keys}, {at::randn({1, 2, 3, 4})});
  EXPECT_TRUE(seen[0].eq(0).all().item<bool>());
  EXPECT_TRUE(seen[1].eq(0).all().item<bool>());
  EXPECT_EQ(sizes(outputs({no_keys, query, query}, {}, {})[0]), Shape({1, 2, 0, 4}));
  // Without columns all scores are 0.
  const at::Tensor no_dim = at::empty({1, 2, 3, 0});
  EXPECT_TRUE(outputs({no_dim, no_dim, query}, {}, {.scale = 1.0})[0].allclose(
      query.mean(2, true).expand({1, 2, 3, 4})));
}

TEST(AttentionTest, SecondDerivativesAndThatOfTheMaskAreThoseOfDouble) {
  const Tensors in = random_inputs({2, 1, 5, 6, 4, 4}, at::kDouble);
  const at::Tensor mask = at::randn({5, 6}, at::kDouble).requires_grad_();
  const AttentionOptions options{.causal = true};
  const auto second = [&](const auto& call) {
    Tensors leaves;
    for (const at::Tensor& x : in) leaves.push_back(x.detach().requires_grad_());
    const Tensors results = call(leaves);
    const at::Tensor sum = results[0].pow(3).sum().add(results[1].slice(2, 1).pow(3).sum());
    const Tensors first = torch::autograd::grad({sum}, leaves, {}, true, true);
    at::Tensor squares = at::zeros({}, at::kDouble);
    for (const at::Tensor& x : first) squares = squares.add(x.square().sum());
    return torch::autograd::grad({squares}, leaves);
  };
  const Tensors mine = second([&](const Tensors& x) { return outputs(x, {}, options); });
  const Tensors wide = second([&](const Tensors& x) { return exact_outputs(x, {}, options); });
  for (size_t i = 0; i < wide.size(); ++i) EXPECT_TRUE(mine[i].allclose(wide[i])) << i;
  const at::Tensor loss = outputs(in, mask, {})[0].square().sum();
  const at::Tensor exact_loss = exact(in, mask, {}).output.square().sum();
  EXPECT_TRUE(torch::autograd::grad({loss}, {mask})[0].allclose(
      torch::autograd::grad({exact_loss}, {mask})[0]));
}

TEST(AttentionTest, TheResultIsTheSameWithAnyNumberOfThreads) {
  const int threads = at::get_num_threads();
  for (const int64_t queries : {300, 2}) {  // The latter splits the keys.
    const Tensors in = random_inputs({2, 1, queries, 1500, 32, 32}, at::kFloat);
    const Tensors weights = {at::randn({2, 2, queries, 32}), at::randn({2, 2, queries})};
    const auto run = [&](int count) {
      at::set_num_threads(count);
      return with_gradients([&](const Tensors& x) { return outputs(x, {}, {.causal = true}); }, in,
                            weights);
    };
    const Tensors one = run(1);
    const Tensors many = run(7);
    at::set_num_threads(threads);
    for (size_t i = 0; i < one.size(); ++i) {
      EXPECT_TRUE(one[i].allclose(many[i], 1e-5, 1e-5)) << queries << " result " << i;
    }
  }
}

template <typename Error, typename Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what_without_backtrace();
  }
  return "no such error";
}

TEST(AttentionTest, BadArgumentsAreNamed) {
  const at::Tensor x = at::randn({1, 4, 3, 8});
  const auto type_error = [](const Tensors& in, const at::Tensor& mask) {
    return message_of<c10::TypeError>([&] { outputs(in, mask, {}); });
  };
  const auto value_error = [](const Tensors& in, const at::Tensor& mask,
                              const AttentionOptions& options) {
    return message_of<c10::ValueError>([&] { outputs(in, mask, options); });
  };
  EXPECT_EQ(
      type_error({x, x.to(at::kDouble), x}, {}),
      "scramjet::attention: argument 'key' has dtype Double; expected that of 'query', Float");
  EXPECT_EQ(type_error({x, x, x}, at::zeros({3, 3}, at::kLong)),
            "scramjet::attention: argument 'mask' has dtype Long; expected Bool, that of 'query', "
            "Float, or Float where that is Half or BFloat16");
  EXPECT_EQ(value_error({x[0], x, x}, {}, {}),
            "scramjet::attention: argument 'query' has shape [4, 3, 8]; expected [batch, heads, "
            "queries, dim]");
  EXPECT_EQ(value_error({x, x.slice(1, 0, 3), x.slice(1, 0, 3)}, {}, {}),
            "scramjet::attention: argument 'key' has 3 heads; expected a number that divides those "
            "of 'query', 4");
  EXPECT_EQ(value_error({x, x, x.slice(2, 0, 2)}, {}, {}),
            "scramjet::attention: argument 'value' has 2 rows; expected those of 'key', 3");
  EXPECT_EQ(value_error({x, x.slice(3, 0, 2), x}, {}, {}),
            "scramjet::attention: argument 'key' has dim 2; expected that of 'query', 8");
  EXPECT_EQ(value_error({x, x, x}, at::zeros({2, 3}), {}),
            "scramjet::attention: argument 'mask' has shape [2, 3]; expected what broadcasts to "
            "[batch, heads, queries, keys], [1, 4, 3, 3]");
  EXPECT_EQ(value_error({x, x, x}, {}, {.window_left = -1}),
            "scramjet::attention: argument 'window_left' is -1; expected 0 or more, or none for "
            "all keys");
  EXPECT_EQ(message_of<c10::NotImplementedError>([&] {
              outputs({x.to_sparse(), x, x}, {}, {});
            }).substr(0, 40),
            "scramjet::attention: argument 'query' is");
}

}  // namespace
}  // namespace scramjet::ops
