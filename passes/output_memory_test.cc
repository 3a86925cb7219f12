#include "passes/output_memory.h"

#include <gtest/gtest.h>
#include <torch/csrc/jit/ir/irparser.h>
#include <torch/csrc/jit/testing/file_check.h>

#include "passes/fuse_pointwise.h"

namespace scramjet::passes {
namespace {

using torch::jit::testing::FileCheck;

std::string run(const std::string& body, bool expect_change) {
  PassContext context{std::make_shared<torch::jit::Graph>(), {}};
  torch::jit::parseIR("graph(%x : Tensor, %w : Tensor, %b : Tensor):\n" + body,
                      context.graph.get());
  fuse_pointwise(context);
  const std::string before = context.graph->toString();
  EXPECT_EQ(output_memory(context), expect_change);
  context.graph->lint();
  const std::string after = context.graph->toString();
  EXPECT_EQ(before != after, expect_change);
  return after;
}

TEST(OutputMemory, AProductThatAGroupReads) {
  FileCheck()
      .check("scramjet::linear(%x, %w, %b)")
      ->check("scramjet::run")
      ->run(run(R"IR(
  %h : Tensor = aten::linear(%x, %w, %b)
  %r : Tensor = aten::relu(%h)
  %y : Tensor = aten::mul(%r, %h)
  return (%y)
)IR",
                true));
}

TEST(OutputMemory, NotAProductThatIsReturned) {
  FileCheck()
      .check("aten::linear")
      ->run(run(R"IR(
  %h : Tensor = aten::linear(%x, %w, %b)
  %r : Tensor = aten::relu(%h)
  return (%r)
)IR",
                false));
}

}  // namespace
}  // namespace scramjet::passes
