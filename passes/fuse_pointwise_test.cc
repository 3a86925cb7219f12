#include "passes/fuse_pointwise.h"

#include <gtest/gtest.h>
#include <torch/csrc/jit/ir/irparser.h>
#include <torch/csrc/jit/testing/file_check.h>

namespace scramjet::passes {
namespace {

using torch::jit::Graph;
using torch::jit::testing::FileCheck;

PassContext parse(const std::string& text) {
  PassContext context{std::make_shared<Graph>(), {}};
  torch::jit::parseIR(text, context.graph.get());
  return context;
}

// Fuses, lints, and returns the graph's text.
std::string fuse(PassContext& context, bool expect_change = true) {
  const std::string before = context.graph->toString();
  EXPECT_EQ(fuse_pointwise(context), expect_change);
  context.graph->lint();
  const std::string after = context.graph->toString();
  EXPECT_EQ(before != after, expect_change);
  return after;
}

TEST(FusePointwise, JoinsAChain) {
  auto context = parse(R"IR(
graph(%x : Tensor, %y : Tensor):
  %one : int = prim::Constant[value=1]()
  %a : Tensor = aten::add(%x, %y, %one)
  %b : Tensor = aten::tanh(%a)
  %c : Tensor = aten::mul(%b, %a)
  return (%c))IR");
  FileCheck()
      .check("scramjet::run")
      ->check_same("kernel v1 add_tanh_mul(2)")
      ->check("prim::ListUnpack")
      ->check_not("aten::tanh(%")
      ->run(fuse(context));
  ASSERT_EQ(context.report.groups.size(), 1u);
  EXPECT_EQ(context.report.groups[0].ops.size(), 3u);
}

TEST(FusePointwise, LeavesASingleOpAlone) {
  auto context = parse(R"IR(
graph(%x : Tensor, %w : Tensor):
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::matmul(%a, %w)
  return (%b))IR");
  fuse(context, /*expect_change=*/false);
  ASSERT_EQ(context.report.outside.size(), 2u);
  EXPECT_EQ(context.report.outside[0].reason, "nothing to fuse it with");
  EXPECT_FALSE(context.report.outside[1].pointwise);
}

TEST(FusePointwise, NeverAcrossAWrite) {
  auto context = parse(R"IR(
graph(%x : Tensor, %y : Tensor):
  %one : int = prim::Constant[value=1]()
  %a : Tensor = aten::neg(%x)
  %w : Tensor = aten::add_(%x, %y, %one)
  %b : Tensor = aten::mul(%a, %x)
  return (%b))IR");
  fuse(context, /*expect_change=*/false);
}

TEST(FusePointwise, NeverAcrossARandomDraw) {
  auto context = parse(R"IR(
graph(%x : Tensor):
  %true : bool = prim::Constant[value=1]()
  %p : float = prim::Constant[value=0.5]()
  %a : Tensor = aten::neg(%x)
  %d : Tensor = aten::dropout(%x, %p, %true)
  %b : Tensor = aten::mul(%a, %d)
  return (%b))IR");
  fuse(context, /*expect_change=*/false);
}

TEST(FusePointwise, NoPathOutAndBackIn) {
  // relu → matmul → add: relu and add must not share a kernel.
  auto context = parse(R"IR(
graph(%x : Tensor, %w : Tensor):
  %one : int = prim::Constant[value=1]()
  %a : Tensor = aten::relu(%x)
  %m : Tensor = aten::matmul(%a, %w)
  %b : Tensor = aten::add(%a, %m, %one)
  %c : Tensor = aten::tanh(%b)
  return (%c))IR");
  FileCheck()
      .check("aten::relu(%")
      ->check("aten::matmul")
      ->check("kernel v1 add_tanh(2)")
      ->run(fuse(context));
}

TEST(FusePointwise, PathThroughABranchCounts) {
  auto context = parse(R"IR(
graph(%x : Tensor, %c : bool):
  %one : int = prim::Constant[value=1]()
  %a : Tensor = aten::relu(%x)
  %i : Tensor = prim::If(%c)
    block0():
      %m : Tensor = aten::matmul(%a, %a)
      -> (%m)
    block1():
      -> (%x)
  %b : Tensor = aten::mul(%a, %i)
  return (%b))IR");
  fuse(context, /*expect_change=*/false);
}

TEST(FusePointwise, ReordersWhatLiesBetween) {
  // The matmul does not depend on the group but stands in its middle.
  auto context = parse(R"IR(
graph(%x : Tensor, %w : Tensor):
  %a : Tensor = aten::relu(%x)
  %m : Tensor = aten::matmul(%x, %w)
  %b : Tensor = aten::mul(%a, %m)
  return (%b))IR");
  FileCheck().check("aten::matmul")->check("kernel v1 relu_mul(2)")->run(fuse(context));
}

TEST(FusePointwise, InsideBranchesAndLoops) {
  auto context = parse(R"IR(
graph(%x : Tensor, %c : bool, %n : int):
  %true : bool = prim::Constant[value=1]()
  %r : Tensor = prim::If(%c)
    block0():
      %a : Tensor = aten::relu(%x)
      %b : Tensor = aten::neg(%a)
      -> (%b)
    block1():
      %y : Tensor = prim::Loop(%n, %true, %x)
        block0(%i : int, %z : Tensor):
          %d : Tensor = aten::tanh(%z)
          %e : Tensor = aten::exp(%d)
          -> (%true, %e)
      -> (%y)
  return (%r))IR");
  FileCheck()
      .check("block0")
      ->check("relu_neg")
      ->check("block1")
      ->check("prim::Loop")
      ->check("tanh_exp")
      ->run(fuse(context));
  EXPECT_EQ(context.report.groups.size(), 2u);
}

TEST(FusePointwise, ACastThatEscapesStaysOutside) {
  auto context = parse(R"IR(
graph(%x : Tensor):
  %dtype : int = prim::Constant[value=6]()
  %false : bool = prim::Constant[value=0]()
  %none : NoneType = prim::Constant()
  %a : Tensor = aten::to(%x, %dtype, %false, %false, %none)
  %b : Tensor = aten::neg(%a)
  %c : Tensor = aten::exp(%b)
  return (%a, %c))IR");
  FileCheck().check("aten::to(%")->check("kernel v1 neg_exp(1)")->run(fuse(context));
}

TEST(FusePointwise, ArgumentsThatAreNotConstantStayOutside) {
  auto context = parse(R"IR(
graph(%x : Tensor, %alpha : float):
  %a : Tensor = aten::mul(%x, %alpha)
  %b : Tensor = aten::neg(%a)
  return (%b))IR");
  fuse(context, /*expect_change=*/false);
  EXPECT_EQ(context.report.outside[0].reason, "argument 'other' is not a constant");
  EXPECT_TRUE(context.report.outside[0].pointwise);
}

TEST(FusePointwise, RewriteBudget) {
  auto context = parse(R"IR(
graph(%x : Tensor, %w : Tensor):
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::neg(%a)
  %m : Tensor = aten::matmul(%b, %w)
  %c : Tensor = aten::relu(%m)
  %d : Tensor = aten::neg(%c)
  return (%d))IR");
  context.rewrite_budget = 1;
  fuse_pointwise(context);
  context.graph->lint();
  EXPECT_EQ(context.report.groups.size(), 1u);
}

}  // namespace
}  // namespace scramjet::passes
