#include "passes/compare_elements.h"

#include <gtest/gtest.h>
#include <torch/csrc/jit/ir/irparser.h>
#include <torch/csrc/jit/testing/file_check.h>

namespace scramjet::passes {
namespace {

using torch::jit::testing::FileCheck;

// `middle` stands between the comparison and aten::Bool.
std::string run(const std::string& middle, const std::string& result, bool expect_change) {
  PassContext context{std::make_shared<torch::jit::Graph>(), {}};
  torch::jit::parseIR(R"IR(
graph(%x : Tensor, %y : Tensor):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %half : float = prim::Constant[value=0.5]()
  %a : Tensor = aten::select(%x, %zero, %one)
  %b : Tensor = aten::select(%a, %one, %zero)
  %g : Tensor = aten::gt(%b, %half)
)IR" + middle + "\n  %c : bool = aten::Bool(%g)\n  return (" +
                          result + ")",
                      context.graph.get());
  const std::string before = context.graph->toString();
  EXPECT_EQ(compare_elements(context), expect_change);
  context.graph->lint();
  const std::string after = context.graph->toString();
  EXPECT_EQ(before != after, expect_change);
  return after;
}

TEST(CompareElements, ReadsTheElement) {
  FileCheck()
      .check("int[] = prim::Constant[value=[0, 1]]")  // dims: 0, then 1
      ->check("int[] = prim::Constant[value=[1, 0]]")
      ->check("value=\"gt\"")
      ->check("scramjet::compare_element(%x")
      ->check_not("aten::select")
      ->check_not("aten::Bool")
      ->run(run("", "%c", true));
}

TEST(CompareElements, NotAcrossAWrite) {
  run("  %w : Tensor = aten::add_(%x, %y, %one)", "%c", false);
}

TEST(CompareElements, NotWhereTheResultIsUsedElsewhere) { run("", "%c, %g", false); }

TEST(CompareElements, AViewUsedElsewhereStays) {
  FileCheck().check("aten::select(%x")->check("compare_element(%")->run(run("", "%c, %a", true));
}

}  // namespace
}  // namespace scramjet::passes
