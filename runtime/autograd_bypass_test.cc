#include "runtime/autograd_bypass.h"

#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/passes/inliner.h>

namespace scramjet::runtime {
namespace {

// Of a module with a tensor `weight`, a tensor `state` and a number `count`.
bool allowed(const std::string& forward) {
  torch::jit::Module module("net");
  module.register_parameter("weight", at::Tensor(), false);
  module.register_buffer("state", at::Tensor());
  module.register_attribute("count", c10::IntType::get(), int64_t{1});
  module.define("def forward(self, x, n: int):\n    " + forward + "\n");
  const auto graph = module.get_method("forward").graph()->copy();
  torch::jit::Inline(*graph);
  return can_bypass_autograd(*graph);
}

TEST(AutogradBypass, NewResults) {
  EXPECT_TRUE(allowed("return torch.mm(x, self.weight)"));
  EXPECT_TRUE(allowed("return torch.mm(x, self.weight), x + 1"));
  EXPECT_TRUE(allowed("return torch.conv1d(x, self.weight).squeeze(-1)"));
  EXPECT_TRUE(allowed("return n, self.count"));
}

TEST(AutogradBypass, WhatWasThereBeforeAsItIs) { EXPECT_TRUE(allowed("return x, self.weight")); }

TEST(AutogradBypass, NoViewsOfWhatWasThereBefore) {
  EXPECT_FALSE(allowed("return x[0]"));
  EXPECT_FALSE(allowed("return self.weight.t()"));
  EXPECT_FALSE(allowed("return [x, x.view(-1)]"));
  EXPECT_FALSE(allowed("return torch.einsum('ij->ji', [x])"));
  EXPECT_FALSE(allowed("return x.split(1)[0]"));
  EXPECT_FALSE(allowed("return torch.dropout(x, 0.5, False)[0]"));
}

TEST(AutogradBypass, NoTwoResultsInOneMemory) {
  EXPECT_FALSE(allowed("y = x + 1\n    return y, y[0]"));
  EXPECT_FALSE(allowed("y = x + 1\n    self.state = y\n    return y"));
  EXPECT_TRUE(allowed("y = x + 1\n    self.state = y\n    return y + 1"));
}

TEST(AutogradBypass, WritesToNewMemoryOnly) {
  EXPECT_TRUE(allowed("y = x + 1\n    y[0].relu_()\n    return y"));
  EXPECT_FALSE(allowed("x.relu_()\n    return 1"));
  EXPECT_FALSE(allowed("self.state.add_(1)\n    return x + 1"));
  EXPECT_FALSE(allowed("x[0].copy_(self.weight)\n    return x + 1"));
  EXPECT_FALSE(allowed("y = [x + 1]\n    y.append(x[0])\n    return y"));
}

TEST(AutogradBypass, LooksThroughControlFlow) {
  EXPECT_TRUE(allowed(R"(y = x + 1
    if n > 0:
        y = torch.relu(x)
    for i in range(n):
        y = y * 2
    return y)"));
  EXPECT_FALSE(allowed(R"(y = x + 1
    if n > 0:
        y = x[0]
    return y)"));
  EXPECT_FALSE(allowed(R"(y = x
    for i in range(n):
        y = y[0]
    return y)"));
  EXPECT_FALSE(allowed(R"(y = x
    for i in range(n):
        y.add_(1)
        y = y + 1
    return y + 1)"));
}

TEST(AutogradBypass, NotWhereGradientsAreAskedFor) {
  EXPECT_FALSE(allowed("y = (x + 1).requires_grad_()\n    return y"));
  EXPECT_FALSE(allowed("torch.set_grad_enabled(True)\n    return x + 1"));
}

}  // namespace
}  // namespace scramjet::runtime
