#include "scripting/compile.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/serialization/import.h>

#include <functional>
#include <sstream>

namespace scramjet {
namespace {

using torch::jit::Module;

Module net() {
  Module module("Net");
  module.register_parameter("weight", at::randn({4, 4}), false);
  module.register_buffer("scale", at::ones({4}));
  module.register_attribute("calls", c10::IntType::get(), c10::IValue(0));
  module.define(R"JIT(
    def forward(self, x, deep: bool=False):
      self.calls += 1
      y = torch.relu(torch.mm(x, self.weight)) * self.scale + 1
      if deep:
        for i in range(3):
          y = torch.tanh(y) * 2 - x
      else:
        y = torch.exp(-y) + x
      return y

    def count(self):
      return self.calls
  )JIT");
  return module;
}

at::Tensor call(Module& module, const at::Tensor& x, bool deep) {
  const at::NoGradGuard no_grad;
  return module.forward({x, deep}).toTensor();
}

Module reload(const Module& module) {
  std::stringstream bytes;
  module.save(bytes);
  return torch::jit::load(bytes);
}

CompileOptions with(const std::function<void(CompileOptions&)>& set) {
  CompileOptions options;
  set(options);
  return options;
}

std::string complaint(const Module& module, const CompileOptions& options) {
  try {
    compile(module, options);
  } catch (const c10::ValueError& error) {
    return error.what_without_backtrace();
  }
  return "none";
}

TEST(Compile, AnswersLikeTheOriginal) {
  Module plain = net();
  Module fast = compile(plain);
  for (bool deep : {false, true}) {
    for (int64_t rows : {1, 3, 0, 50}) {
      const at::Tensor x = at::randn({rows, 4});
      EXPECT_TRUE(call(fast, x, deep).allclose(call(plain, x, deep), 1e-6, 1e-6));
    }
  }
}

TEST(Compile, SavesAndLoadsAsAPlainModule) {
  Module plain = net();
  const at::Tensor x = at::randn({5, 4});
  Module once = reload(compile(plain));
  Module twice = reload(once);
  for (Module* module : {&once, &twice}) {
    EXPECT_TRUE(call(*module, x, true).allclose(call(plain, x, true), 1e-6, 1e-6));
    EXPECT_NE(explain(*module).find("fused group"), std::string::npos);
  }
}

TEST(Compile, ParametersAreSharedAndStateIsNot) {
  Module plain = net();
  Module fast = compile(plain);
  EXPECT_TRUE(fast.attr("weight").toTensor().is_same(plain.attr("weight").toTensor()));
  call(fast, at::randn({2, 4}), false);
  EXPECT_EQ(fast.run_method("count").toInt(), 1);
  EXPECT_EQ(plain.run_method("count").toInt(), 0);
  plain.attr("weight").toTensor().zero_();
  const at::Tensor x = at::randn({2, 4});
  EXPECT_TRUE(call(fast, x, false).equal(call(plain, x, false)));
}

TEST(Compile, DefaultArguments) {
  Module plain = net(), fast = compile(plain);
  const at::Tensor x = at::randn({2, 4});
  EXPECT_TRUE(fast.forward({x}).toTensor().allclose(plain.forward({x}).toTensor()));
}

TEST(Compile, TwiceIsOnce) {
  const Module fast = compile(net());
  EXPECT_EQ(compile(fast)._ivalue(), fast._ivalue());
}

TEST(Compile, FusesInEachBranch) {
  Module fast = compile(net());
  call(fast, at::randn({2, 4}), true);
  const std::string report = explain(fast);
  for (const char* group : {"relu_mul_add", "tanh_mul_sub", "neg_exp_add"}) {
    EXPECT_NE(report.find(group), std::string::npos) << report;
  }
  EXPECT_NE(report.find("relu_mul_add on (Float, Float): 1 machine code"), std::string::npos)
      << report;
}

TEST(Compile, Gradients) {
  Module plain = net(), fast = compile(plain);
  const at::Tensor a = at::randn({3, 4}).requires_grad_(), b = a.detach().clone().requires_grad_();
  plain.forward({a, true}).toTensor().sum().backward();
  fast.forward({b, true}).toTensor().sum().backward();
  EXPECT_TRUE(a.grad().allclose(b.grad()));
}

// torch's interpreter emits the inner loop at its use, after `y` was given away, unless it is kept
// in place.
TEST(Compile, NestedLoopsKeepTheirOrder) {
  Module plain("Nested");
  plain.define(R"JIT(
    def forward(self, x):
      z = x
      for i in range(2):
        y = torch.neg(x)
        for j in range(2):
          x = torch.exp(y)
        z = y
      return z
  )JIT");
  Module fast = compile(plain);
  const at::Tensor x = at::randn({3});
  EXPECT_TRUE(fast.forward({x}).toTensor().allclose(x.neg().exp().neg()));
}

// Two names for one submodule stay one.
TEST(Compile, SharedSubmodules) {
  Module child("Child");
  child.register_attribute("n", c10::IntType::get(), c10::IValue(0));
  child.define("def forward(self, x):\n  self.n += 1\n  return x + self.n\n");
  Module plain("Parent");
  plain.register_module("a", child);
  plain.register_module("b", child);
  plain.define("def forward(self, x):\n  return self.b.forward(self.a.forward(x)) * 2\n");
  Module fast = compile(plain);
  EXPECT_TRUE(fast.forward({at::zeros({1})}).toTensor().equal(at::full({1}, 6.0)));
}

TEST(Compile, OptionsThatAreNotThereSaySo) {
  EXPECT_NE(complaint(net(), with([](auto& o) { o.dynamic = false; })).find("'dynamic'"),
            std::string::npos);
  EXPECT_NE(
      complaint(net(), with([](auto& o) { o.mode = "max-autotune"; })).find("\"max-autotune\""),
      std::string::npos);
  EXPECT_NE(complaint(net(), with([](auto& o) { o.async = true; })).find("'async'"),
            std::string::npos);
  EXPECT_NE(
      complaint(net(), with([](auto& o) { o.skip_passes = {"fuse"}; })).find("fuse-pointwise"),
      std::string::npos);
  EXPECT_NE(complaint(net(), with([](auto& o) { o.rewrite_budget = -1; })).find("rewrite_budget"),
            std::string::npos);
  Module empty("Empty");
  EXPECT_NE(complaint(empty, {}).find("no method forward"), std::string::npos);
}

TEST(Compile, FullgraphReportsWhatStaysOutside) {
  Module module("InPlace");
  module.define(
      "def forward(self, x):\n  y = torch.tanh(x) + 1\n  y.mul_(2)\n  return torch.exp(y) - 1\n");
  const std::string text = complaint(module, with([](auto& o) { o.fullgraph = true; }));
  EXPECT_NE(text.find("aten::mul_"), std::string::npos) << text;
  EXPECT_NE(text.find("2 fused groups"), std::string::npos) << text;
  Module pure("Pure");
  pure.define("def forward(self, x):\n  return torch.tanh(x) + 1\n");
  EXPECT_EQ(complaint(pure, with([](auto& o) { o.fullgraph = true; })), "none");
}

TEST(Compile, RewritesCanBeBisected) {
  EXPECT_NE(
      explain(compile(net(), with([](auto& o) { o.rewrite_budget = 0; }))).find("0 fused groups"),
      std::string::npos);
  EXPECT_NE(
      explain(compile(net(), with([](auto& o) { o.rewrite_budget = 2; }))).find("2 fused groups"),
      std::string::npos);
  EXPECT_NE(explain(compile(net(), with([](auto& o) { o.skip_passes = {"fuse-pointwise"}; })))
                .find("0 fused groups"),
            std::string::npos);
}

TEST(Compile, Freezing) {
  Module module("Frozen");
  module.register_parameter("weight", at::randn({4, 4}), false);
  module.define("def forward(self, x):\n  return torch.tanh(torch.mm(x, self.weight)) + 1\n");
  module.eval();
  Module fast = compile(module, with([](auto& o) { o.freeze = true; }));
  EXPECT_FALSE(fast.hasattr("weight"));
  const at::Tensor x = at::randn({3, 4});
  EXPECT_TRUE(fast.forward({x}).toTensor().allclose(module.forward({x}).toTensor()));
}

TEST(Explain, OnlyOfACompiledModule) { EXPECT_THROW(explain(net()), c10::ValueError); }

}  // namespace
}  // namespace scramjet
