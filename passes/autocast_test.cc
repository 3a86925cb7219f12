#include "passes/autocast.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/ir/irparser.h>
#include <torch/csrc/jit/runtime/interpreter.h>
#include <torch/csrc/jit/testing/file_check.h>

#include "amp/autocast.h"
#include "runtime/autocast_region.h"

namespace scramjet::passes {
namespace {

using torch::jit::testing::FileCheck;

std::shared_ptr<torch::jit::Graph> parse(const std::string& text) {
  auto graph = std::make_shared<torch::jit::Graph>();
  torch::jit::parseIR(text, graph.get());
  return graph;
}

std::vector<at::Tensor> run(const std::shared_ptr<torch::jit::Graph>& graph,
                            torch::jit::Stack stack) {
  const runtime::AutocastGuard restores_what_the_graph_leaves;
  torch::jit::InterpreterState(torch::jit::Code(graph, "graph")).run(stack);
  std::vector<at::Tensor> results;
  for (const c10::IValue& value : stack) results.push_back(value.toTensor());
  return results;
}

// Runs the pass; both graphs must answer alike, the original in a region of torch's.
std::string rewrite(const std::string& text, const torch::jit::Stack& inputs,
                    AutocastSettings settings = {at::kCPU, at::kBFloat16, {}}) {
  const bool torchs_policies = settings.overrides.empty();
  PassContext context{parse(text), {}};
  context.autocast = std::move(settings);
  EXPECT_TRUE(autocast(context));
  context.graph->lint();
  std::vector<at::Tensor> want;
  {
    const amp::Autocast region(at::kCPU, {.dtype = at::kBFloat16});
    want = run(parse(text), inputs);
  }
  const std::vector<at::Tensor> got = run(context.graph, inputs);
  for (size_t k = 0; k < want.size() && torchs_policies; ++k) {
    EXPECT_EQ(got.at(k).scalar_type(), want[k].scalar_type());
    EXPECT_TRUE(at::equal(got.at(k), want[k])) << text;
  }
  return context.graph->toString();
}

torch::jit::Stack two_by_two() { return {at::randn({2, 2}), at::randn({2, 2})}; }

TEST(Autocast, CastsTheInputsOfOpsOnTheLists) {
  FileCheck()
      .check("scramjet::enter_autocast")
      ->check_count("scramjet::autocast_to", 2, /*exactly=*/true)
      ->check("aten::mm")
      ->check_not("enter_autocast")
      ->check("scramjet::exit_autocast")
      ->run(rewrite(R"IR(
graph(%x : Tensor, %w : Tensor):
  %y : Tensor = aten::mm(%x, %w)
  return (%y))IR",
                    two_by_two()));
}

TEST(Autocast, CastsAValueOnceForAllItsReaders) {
  FileCheck()
      .check_count("scramjet::autocast_to", 2, /*exactly=*/true)
      ->run(rewrite(R"IR(
graph(%x : Tensor, %w : Tensor):
  %y : Tensor = aten::mm(%x, %w)
  %z : Tensor = aten::mm(%w, %x)
  return (%y, %z))IR",
                    two_by_two()));
}

TEST(Autocast, CastsAgainAfterAWrite) {
  FileCheck()
      .check_count("scramjet::autocast_to", 4, /*exactly=*/true)
      ->run(rewrite(R"IR(
graph(%x : Tensor, %w : Tensor):
  %one : int = prim::Constant[value=1]()
  %y : Tensor = aten::mm(%x, %w)
  %t : Tensor = aten::mul_(%w, %one)
  %z : Tensor = aten::mm(%w, %x)
  return (%y, %z))IR",
                    two_by_two()));
}

TEST(Autocast, CastsBeforeTheLoop) {
  FileCheck()
      .check("scramjet::autocast_to(%w")
      ->check("prim::Loop")
      ->check_count("scramjet::autocast_to", 1, /*exactly=*/true)
      ->run(rewrite(R"IR(
graph(%x : Tensor, %w : Tensor):
  %n : int = prim::Constant[value=3]()
  %true : bool = prim::Constant[value=1]()
  %y : Tensor = prim::Loop(%n, %true, %x)
    block0(%i : int, %h : Tensor):
      %g : Tensor = aten::mm(%h, %w)
      -> (%true, %g)
  return (%y))IR",
                    two_by_two()));
}

TEST(Autocast, ABranchNotTakenCastsNothing) {
  FileCheck()
      .check("prim::If")
      ->check("scramjet::autocast_to")
      ->check("return")
      ->run(rewrite(R"IR(
graph(%x : Tensor, %w : Tensor):
  %c : bool = prim::Constant[value=1]()
  %y : Tensor = prim::If(%c)
    block0():
      %g : Tensor = aten::mm(%x, %w)
      -> (%g)
    block1():
      -> (%x)
  return (%y))IR",
                    two_by_two()));
}

// einsum calls bmm inside, cat takes the widest dtype.
TEST(Autocast, TorchDecidesWhereTheListsAreNotEnough) {
  FileCheck()
      .check("enter_autocast")
      ->check("aten::mm")
      ->check("enter_autocast")
      ->check("aten::einsum")
      ->check("aten::cat")
      ->check("exit_autocast")
      ->check("exit_autocast")
      ->run(rewrite(R"IR(
graph(%x : Tensor, %w : Tensor):
  %none : NoneType = prim::Constant()
  %zero : int = prim::Constant[value=0]()
  %text : str = prim::Constant[value="ij,jk->ik"]()
  %y : Tensor = aten::mm(%x, %w)
  %l : Tensor[] = prim::ListConstruct(%x, %w)
  %e : Tensor = aten::einsum(%text, %l, %none)
  %m : Tensor[] = prim::ListConstruct(%x, %e)
  %c : Tensor = aten::cat(%m, %zero)
  return (%y, %e, %c))IR",
                    two_by_two()));
}

TEST(Autocast, PointwiseOpsAndViewsStayAsTheyAre) {
  FileCheck()
      .check_count("enter_autocast", 1, /*exactly=*/true)
      ->check_not("autocast_to")
      ->run(rewrite(R"IR(
graph(%x : Tensor, %w : Tensor):
  %one : int = prim::Constant[value=1]()
  %zero : int = prim::Constant[value=0]()
  %y : Tensor = aten::add(%x, %w, %one)
  %t : Tensor = aten::transpose(%y, %zero, %one)
  return (%t))IR",
                    two_by_two()));
}

TEST(Autocast, Overrides) {
  const std::string text = R"IR(
graph(%x : Tensor, %w : Tensor):
  %y : Tensor = aten::mm(%x, %w)
  return (%y))IR";
  FileCheck()
      .check_not("autocast_to")
      ->run(rewrite(text, two_by_two(), {at::kCPU, at::kBFloat16, {{"aten::mm", std::nullopt}}}));
  FileCheck()
      .check("prim::Constant[value=6]")
      ->check("autocast_to")
      ->run(rewrite(text, two_by_two(),
                    {at::kCPU, at::kBFloat16, {{"aten::mm", amp::CastPolicy::fp32}}}));
}

TEST(Autocast, UnchangedWhereNobodyAsksForIt) {
  const auto graph = parse("graph(%x : Tensor):\n  %y : Tensor = aten::mm(%x, %x)\n  return (%y)");
  const std::string before = graph->toString();
  PassContext context{graph, {}};
  EXPECT_FALSE(autocast(context));
  EXPECT_EQ(graph->toString(), before);
}

}  // namespace
}  // namespace scramjet::passes
