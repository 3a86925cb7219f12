#include "runtime/prepare_graph.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/ir/irparser.h>
#include <torch/csrc/jit/runtime/interpreter.h>
#include <torch/csrc/jit/testing/file_check.h>

namespace scramjet::runtime {
namespace {

using torch::jit::testing::FileCheck;

std::shared_ptr<torch::jit::Graph> parse(const std::string& text) {
  auto graph = std::make_shared<torch::jit::Graph>();
  torch::jit::parseIR(text, graph.get());
  return graph;
}

at::Tensor run(const std::shared_ptr<torch::jit::Graph>& graph) {
  torch::jit::Stack stack = {at::ones({2, 3})};
  torch::jit::InterpreterState(torch::jit::Code(graph, "graph")).run(stack);
  return stack.back().toTensor();
}

// Both graphs must answer alike, twice: a list made once must not keep what a call did to it.
std::string prepared(const std::string& text) {
  const auto graph = parse(text);
  prepare_graph(*graph);
  graph->lint();
  for (int call = 0; call < 2; ++call) EXPECT_TRUE(at::equal(run(graph), run(parse(text))));
  return graph->toString();
}

TEST(PrepareGraph, AListOfConstantsThatIsOnlyRead) {
  FileCheck()
      .check("int[] = prim::Constant[value=[3, 2]]")
      ->check_not("prim::ListConstruct")
      ->run(prepared(R"IR(
graph(%x : Tensor):
  %a : int = prim::Constant[value=3]()
  %b : int = prim::Constant[value=2]()
  %l : int[] = prim::ListConstruct(%a, %b)
  %y : Tensor = aten::reshape(%x, %l)
  return (%y))IR"));
}

TEST(PrepareGraph, NotAListThatIsWrittenTo) {
  FileCheck().check("prim::ListConstruct")->run(prepared(R"IR(
graph(%x : Tensor):
  %a : int = prim::Constant[value=3]()
  %b : int = prim::Constant[value=2]()
  %l : int[] = prim::ListConstruct(%a)
  %m : int[] = aten::append(%l, %b)
  %y : Tensor = aten::reshape(%x, %l)
  return (%y))IR"));
}

TEST(PrepareGraph, ALoopStaysWhereItStands) {
  FileCheck().check("NoneType = prim::Loop")->run(prepared(R"IR(
graph(%x : Tensor):
  %n : int = prim::Constant[value=2]()
  %true : bool = prim::Constant[value=1]()
  %y : Tensor = prim::Loop(%n, %true, %x)
    block0(%i : int, %h : Tensor):
      %g : Tensor = aten::mul(%h, %n)
      -> (%true, %g)
  %z : Tensor = aten::add(%x, %y, %n)
  return (%z))IR"));
}

}  // namespace
}  // namespace scramjet::runtime
