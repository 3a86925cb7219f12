#include "amp/inspect.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/library.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <cmath>

#include "amp/raises.h"

namespace scramjet::amp {
namespace {

/// A module with this forward, a parameter "weight" [4, 4] and the buffers of a batch norm.
torch::jit::Module script(const std::string& body) {
  torch::jit::Module module("Net");
  module.register_parameter("weight", at::ones({4, 4}).requires_grad_(), false);
  module.register_buffer("mean", at::zeros({4}));
  module.register_buffer("variance", at::ones({4}));
  module.define("def forward(self, x):\n    " + body + "\n");
  return module;
}

at::Tensor picky(const at::Tensor& x) {
  TORCH_CHECK(x.scalar_type() == at::kFloat, "picky: not for half");
  return x.clone();
}

TORCH_LIBRARY(inspect_test, m) { m.def("picky(Tensor x) -> Tensor", &picky); }

const OperatorReport& report_of(const Inspection& found, const std::string& op) {
  for (const OperatorReport& report : found.operators) {
    if (report.op == op) return report;
  }
  throw std::out_of_range("no report of " + op);
}

using Names = std::vector<std::string>;

InspectOptions with_loss(InspectOptions options = {}) {
  options.loss = [](const c10::IValue& output) { return output.toTensor().sum(); };
  return options;
}

TEST(Inspect, FindsWhatOverflows) {
  const auto net = script("return torch.relu(torch.linear(x, self.weight))");
  const at::Tensor x = at::full({2, 4}, 30000.f);
  const Inspection half = inspect(net, {x});
  EXPECT_EQ(half.keep_in_fp32(), Names{"aten::linear"});  // relu reads what linear made
  const OperatorReport& linear = report_of(half, "aten::linear");
  EXPECT_EQ(linear.outputs.overflowed(), 8);
  EXPECT_EQ(linear.keep_in_fp32, "8 of 8 results overflow, the largest is 120000");
  EXPECT_EQ(linear.policy, CastPolicy::lower_precision_fp);
  EXPECT_TRUE(linear.narrow);

  EXPECT_TRUE(inspect(net, {x}, {.dtype = c10::kBFloat16}).keep_in_fp32().empty());
}

TEST(Inspect, FindsOverflowsThatALaterCallReads) {
  const auto net = script("y = torch.linear(x, self.weight)\n    y = y * y\n    return y * y");
  EXPECT_EQ(inspect(net, {at::full({2, 4}, 100.f)}).keep_in_fp32(), Names{"aten::mul.Tensor"});
}

TEST(Inspect, FindsInputsThatOverflow) {
  const auto net = script("return torch.linear(x, self.weight)");
  const Inspection found = inspect(net, {at::full({2, 4}, 1e6f)});
  EXPECT_EQ(report_of(found, "aten::linear").keep_in_fp32,
            "8 of 24 input values overflow, the largest is 1e+06");
  ASSERT_EQ(found.inputs.size(), 1);
  EXPECT_EQ(found.inputs[0].name, "input 0");
  EXPECT_EQ(found.inputs[0].values.overflowed(), 8);
}

TEST(Inspect, FindsWhatRoundsBadly) {
  // The sum rounds to a multiple of 1/2, and the difference shows it.
  const auto net = script("return torch.linear(x, self.weight) + 1000 - 1000");
  const Inspection found = inspect(net, {at::rand({64, 4})});
  const OperatorReport& difference = report_of(found, "aten::sub.Scalar");
  EXPECT_GT(difference.error.value(), 8);
  EXPECT_EQ(found.keep_in_fp32(), Names{"aten::sub.Scalar"});
  EXPECT_LT(report_of(found, "aten::linear").error.value(), 1);
  EXPECT_LT(report_of(found, "aten::add.Scalar").error.value(), 1);

  EXPECT_TRUE(inspect(net, {at::rand({64, 4})}, {.tolerance = 1e9}).keep_in_fp32().empty());
}

TEST(Inspect, FindsWhatIsFlushed) {
  const auto net = script("return torch.linear(x, self.weight) * 1e-9");
  const Inspection found = inspect(net, {at::ones({2, 4})});
  const OperatorReport& product = report_of(found, "aten::mul.Scalar");
  EXPECT_EQ(product.outputs.flushed(), 8);
  EXPECT_DOUBLE_EQ(product.error.value(), 1 / kFloat16.epsilon());  // all of it is lost
  EXPECT_EQ(found.keep_in_fp32(), Names{"aten::mul.Scalar"});
}

TEST(Inspect, FindsWhatFails) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("inspect_test::picky", "");
  const auto forward = [&]() -> c10::IValue {
    return op.typed<at::Tensor(const at::Tensor&)>().call(
        at::linear(at::ones({2}), at::ones({2, 2})));
  };
  const Inspection found = inspect(forward, {});
  const OperatorReport& picky = report_of(found, "inspect_test::picky");
  EXPECT_FALSE(picky.error.has_value());
  EXPECT_EQ(picky.keep_in_fp32, "fails: picky: not for half");
}

TEST(Inspect, AnInfThatTheModelMakesIsNotTheFormats) {
  const auto net = script("return torch.linear(x, self.weight) / torch.relu(x)");
  const Inspection found = inspect(net, {at::tensor({-1.f, 1.f, 2.f, 3.f})});
  const OperatorReport& quotient = report_of(found, "aten::div.Tensor");
  EXPECT_EQ(quotient.outputs.infinities(), 1);
  EXPECT_EQ(quotient.outputs.overflowed(), 0);
  EXPECT_LT(quotient.error.value(), 1);
  EXPECT_TRUE(found.keep_in_fp32().empty());
}

TEST(Inspect, WhatAutocastRunsInFloat32NeedsNoAdvice) {
  // On CUDA's list exp is float32, on the CPU's it is not.
  const auto net = script("return torch.exp(torch.linear(x, self.weight))");
  const at::Tensor x = at::full({2, 4}, 3.f);  // exp(12)
  EXPECT_EQ(inspect(net, {x}).keep_in_fp32(), Names{"aten::exp"});
  const Inspection cuda = inspect(net, {x}, {.device = c10::kCUDA});
  EXPECT_TRUE(cuda.keep_in_fp32().empty());
  EXPECT_FALSE(report_of(cuda, "aten::exp").narrow);
  EXPECT_EQ(report_of(cuda, "aten::exp").outputs.overflowed(), 8);  // seen all the same
}

TEST(Inspect, WhatOnlyReadsFloat32NeedsNoAdvice) {
  const auto net = script("return torch.linear(torch.exp(x) * 1e-6, self.weight)");
  const Inspection found = inspect(net, {at::full({2, 4}, 12.f)});
  EXPECT_FALSE(report_of(found, "aten::exp").narrow);
  EXPECT_TRUE(found.keep_in_fp32().empty());
}

TEST(Inspect, NamesLayers) {
  torch::jit::Module inner = script("return torch.relu(torch.linear(x, self.weight))");
  torch::jit::Module outer("Outer");
  outer.register_module("first", inner);
  outer.register_module("second", inner.deepcopy());
  outer.define(R"(
    def twice(self, x):
        return self.second.forward(self.first.forward(x))
    def forward(self, x):
        return torch.tanh(self.twice(x))
  )");
  Names places;
  for (const OperatorReport& report : inspect(outer, {at::ones({2, 4})}).operators) {
    places.push_back(report.layer + " " + report.op);
  }
  EXPECT_EQ(places, (Names{"first aten::linear", "first aten::relu", "second aten::linear",
                           "second aten::relu", " aten::tanh"}));
}

TEST(Inspect, CountsTheCallsOfALoop) {
  const auto net = script(
      "for i in range(5):\n        x = torch.linear(x, self.weight)\n    return x.sum() > 0");
  const Inspection found = inspect(net, {at::ones({2, 4})});
  EXPECT_EQ(report_of(found, "aten::linear").calls, 5);
  EXPECT_EQ(report_of(found, "aten::linear").outputs.count(), 40);
  EXPECT_EQ(found.operators.size(), 2);  // the comparison has no floating-point result
}

TEST(Inspect, StartsTheScaleWhereTheLargestGradientJustFits) {
  const auto net = script("return torch.linear(x, self.weight)");
  InspectOptions options;
  const at::Tensor x = at::rand({8, 4});
  options.loss = [](const c10::IValue& output) { return output.toTensor().mul(1e-5).sum(); };
  const Inspection found = inspect(net, {x}, options);
  const double in_weight = x.sum(0).max().item<double>() * 1e-5;
  EXPECT_NEAR(found.largest_gradient(), std::max(in_weight, 1e-5), 1e-9);
  const double scaled = found.starting_scale().value() * found.largest_gradient();
  EXPECT_LE(scaled, kFloat16.max() / 4);
  EXPECT_GT(scaled, kFloat16.max() / 8);
  EXPECT_NEAR(report_of(found, "aten::linear").gradients.largest(), 1e-5, 1e-10);
  EXPECT_NEAR(found.parameters.at(0).gradients.largest(), in_weight, 1e-9);

  options.dtype = c10::kBFloat16;
  EXPECT_FALSE(inspect(net, {x}, options).starting_scale().has_value());
  EXPECT_FALSE(inspect(net, {x}).starting_scale().has_value());  // no loss, no gradients
}

TEST(Inspect, TheLossMayBeTheModelsOutput) {
  const auto net = script("return torch.linear(x, self.weight).mul(1e-6).sum()");
  InspectOptions options;
  options.loss = [](const c10::IValue& output) { return output.toTensor(); };
  const Inspection found = inspect(net, {at::ones({2, 4})}, options);
  EXPECT_EQ(report_of(found, "aten::sum").gradients.count(), 0);
  // The product's own gradient is 1, and autocast would hold it in half.
  EXPECT_EQ(found.largest_gradient(), 1);
}

TEST(Inspect, LeavesTheModelAsItWas) {
  const torch::jit::Module net = script(
      "x = torch.linear(x, self.weight)\n"
      "    y = torch.batch_norm(x, None, None, self.mean, self.variance, True, 0.1, 1e-5, False)\n"
      "    return torch.relu_(y)");
  const at::Tensor weight = net.attr("weight").toTensor().detach().clone();
  const at::Tensor x = at::randn({8, 4});
  const at::Tensor x_before = x.clone();
  const at::Tensor random_state = at::detail::getDefaultCPUGenerator().get_state();
  const Inspection found = inspect(net, {x}, with_loss());
  EXPECT_EQ(report_of(found, "aten::relu_").outputs.smallest() > 0, true);
  EXPECT_TRUE(net.attr("weight").toTensor().equal(weight));
  EXPECT_FALSE(net.attr("weight").toTensor().grad().defined());
  EXPECT_TRUE(net.attr("mean").toTensor().equal(at::zeros({4})));
  EXPECT_TRUE(net.attr("variance").toTensor().equal(at::ones({4})));
  EXPECT_TRUE(x.equal(x_before));
  EXPECT_TRUE(random_state.equal(at::detail::getDefaultCPUGenerator().get_state()));
}

TEST(Inspect, InPlaceOperatorsAreRunOnce) {
  const auto net = script("y = torch.linear(x, self.weight)\n    y.mul_(2)\n    return y.add_(1)");
  const Inspection found = inspect(net, {at::ones({2, 4})});
  EXPECT_EQ(report_of(found, "aten::mul_.Scalar").outputs.largest(), 8);
  EXPECT_EQ(report_of(found, "aten::add_.Scalar").outputs.largest(), 9);
  EXPECT_EQ(report_of(found, "aten::add_.Scalar").error, 0);

  const torch::jit::Module half = script("return x.mul_(2)");
  const at::Tensor x = at::ones({2}, at::kHalf);  // in the format already
  inspect(half, {x});
  EXPECT_TRUE(x.equal(at::full({2}, 2, at::kHalf)));
}

TEST(Inspect, RandomOperatorsRunOnce) {
  const auto net = script("return torch.dropout(torch.linear(x, self.weight), 0.5, True)");
  EXPECT_EQ(report_of(inspect(net, {at::ones({2, 4})}), "aten::dropout").not_run,
            "draws random numbers");
  const auto serving = script("return torch.dropout(torch.linear(x, self.weight), 0.5, False)");
  EXPECT_EQ(report_of(inspect(serving, {at::ones({2, 4})}), "aten::dropout").error, 0);
}

TEST(Inspect, TakesModelsInCpp) {
  torch::nn::Linear first(4, 8), second(8, 1);
  const at::Tensor x = at::randn({16, 4});
  auto parameters = first->named_parameters().pairs();
  for (auto& [name, parameter] : parameters) name = "first." + name;
  for (const auto& [name, parameter] : second->named_parameters().pairs()) {
    parameters.emplace_back("second." + name, parameter);
  }
  at::Tensor kept;
  const auto forward = [&]() -> c10::IValue {
    const at::Tensor hidden = at::relu(at::linear(x, first->weight, first->bias));
    return kept = at::linear(hidden, second->weight, second->bias);
  };
  InspectOptions options;
  options.loss = [](const c10::IValue& output) { return output.toTensor().square().mean(); };
  const Inspection found = inspect(forward, parameters, options);
  Names places;
  for (const OperatorReport& report : found.operators) {
    places.push_back(report.layer + " " + report.op);
    EXPECT_GT(report.gradients.count(), 0);
  }
  EXPECT_EQ(places, (Names{"first aten::linear", "after first aten::relu", "second aten::linear"}));
  EXPECT_FALSE(first->weight.grad().defined());
  // The hooks of a graph that outlives the inspection have nobody to report to.
  EXPECT_NO_THROW(forward().toTensor().sum().backward());
}

TEST(Inspect, AModelThatThrowsLeavesNothingBehind) {
  const auto net = script("return torch.linear(x, self.weight)");
  std::string message;
  try {
    inspect(net, {at::ones({2, 3})});
  } catch (const std::exception& error) {  // No c10::Error in torch 2.11.
    message = error.what();
  }
  EXPECT_NE(message.find("shapes cannot be multiplied"), std::string::npos) << message;
  EXPECT_EQ(inspect(net, {at::ones({2, 4})}).operators.size(), 1);
}

TEST(Inspect, MisuseNamesTheArgument) {
  const auto net = script("return torch.linear(x, self.weight)");
  const at::Tensor x = at::ones({2, 4});
  EXPECT_TRUE(raises<c10::ValueError>("'options.dtype' must be half or bfloat16, got Float",
                                      [&] { inspect(net, {x}, {.dtype = c10::kFloat}); }));
  EXPECT_TRUE(raises<c10::ValueError>("'options.tolerance' must be above 0, got -1",
                                      [&] { inspect(net, {x}, {.tolerance = -1}); }));
  InspectOptions options;
  options.loss = [](const c10::IValue& output) { return output.toTensor(); };
  EXPECT_TRUE(raises<c10::ValueError>("'options.loss' must return one element, got shape [2, 4]",
                                      [&] { inspect(net, {x}, options); }));
  options.loss = [](const c10::IValue&) { return at::ones({}); };
  EXPECT_TRUE(raises<c10::ValueError>("does not depend on a parameter",
                                      [&] { inspect(net, {x}, options); }));
  torch::jit::Module frozen = script("return torch.linear(x, self.weight)");
  frozen.attr("weight").toTensor().requires_grad_(false);
  EXPECT_TRUE(raises<c10::ValueError>("no parameter of the 1 requires gradients",
                                      [&] { inspect(frozen, {x}, with_loss()); }));
}

}  // namespace
}  // namespace scramjet::amp
