#include "passes/share_attributes.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/interpreter.h>

namespace scramjet::passes {
namespace {

torch::jit::Module module_with(const std::string& forward) {
  torch::jit::Module module("net"), inner("inner");
  inner.register_parameter("weight", at::full({2, 2}, 3.0), false);
  module.register_module("inner", inner);
  module.register_attribute("count", c10::IntType::get(), int64_t{1});
  module.define(forward);
  return module;
}

size_t count_reads(const torch::jit::Graph& graph) {
  size_t reads = 0;
  for_each_node(graph.block(),
                [&](const torch::jit::Node* node) { reads += node->kind() == c10::prim::GetAttr; });
  return reads;
}

// Runs the pass on the method, compares both graphs in numbers, and returns the reads left.
size_t reads_after(const std::string& forward, bool expect_change) {
  const torch::jit::Module before = module_with(forward), after = module_with(forward);
  const auto graph = before.get_method("forward").graph()->copy();
  const std::string text = graph->toString();
  PassContext context{graph, {}};
  EXPECT_EQ(share_attributes(context), expect_change);
  EXPECT_EQ(graph->toString() != text, expect_change);
  graph->lint();
  const at::Tensor x = at::full({2, 2}, 0.5);
  torch::jit::Stack stack = {after._ivalue(), x};
  torch::jit::InterpreterState(torch::jit::Code(graph, "forward")).run(stack);
  torch::jit::Module original = before;
  EXPECT_TRUE(at::equal(stack.at(0).toTensor(), original.forward({x}).toTensor()));
  return count_reads(*graph);
}

TEST(ShareAttributes, ReadsOnce) {
  EXPECT_EQ(reads_after(R"(
def forward(self, x):
    return x @ self.inner.weight @ self.inner.weight
)",
                        true),
            2u);
}

TEST(ShareAttributes, ABranchSeesWhatWasReadBeforeIt) {
  EXPECT_EQ(reads_after(R"(
def forward(self, x):
    y = x @ self.inner.weight
    if bool(y.sum() > 0):
        y = y @ self.inner.weight
    return y
)",
                        true),
            2u);
}

TEST(ShareAttributes, BranchesDoNotSeeEachOther) {
  EXPECT_EQ(reads_after(R"(
def forward(self, x):
    if bool(x.sum() > 0):
        y = x @ self.inner.weight
    else:
        y = x - self.inner.weight
    return y
)",
                        false),
            4u);
}

TEST(ShareAttributes, NotWhatTheGraphSets) {
  EXPECT_EQ(reads_after(R"(
def forward(self, x):
    a = self.count
    self.count = a + 1
    return x * a + self.count
)",
                        false),
            2u);
}

TEST(ShareAttributes, KeepsToTheBudget) {
  const auto graph = module_with("def forward(self, x):\n    return x * self.count + self.count\n")
                         .get_method("forward")
                         .graph()
                         ->copy();
  PassContext context{graph, {}, 0};
  EXPECT_FALSE(share_attributes(context));
}

}  // namespace
}  // namespace scramjet::passes
