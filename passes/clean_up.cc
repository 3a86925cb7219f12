#include "passes/clean_up.h"

#include <torch/csrc/jit/passes/constant_propagation.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/passes/lower_tuples.h>

namespace scramjet::passes {
namespace {

size_t count_nodes(const torch::jit::Block* block) {
  size_t count = 0;
  for_each_node(block, [&](const torch::jit::Node*) { ++count; });
  return count;
}

}  // namespace

bool inline_calls(PassContext& context) {
  const size_t before = count_nodes(context.graph->block());
  torch::jit::Inline(*context.graph);
  return count_nodes(context.graph->block()) != before;
}

bool propagate_constants(PassContext& context) {
  return torch::jit::ConstantPropagationImmutableTypes(context.graph);
}

bool lower_tuples(PassContext& context) {
  const std::string before = context.graph->toString();
  torch::jit::LowerSimpleTuples(context.graph);
  return context.graph->toString() != before;
}

bool eliminate_dead_code(PassContext& context) {
  const size_t before = count_nodes(context.graph->block());
  torch::jit::EliminateDeadCode(context.graph->block());
  return count_nodes(context.graph->block()) != before;
}

}  // namespace scramjet::passes
