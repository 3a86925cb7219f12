#include "passes/compare_elements.h"

#include <torch/csrc/jit/ir/constants.h>

#include <optional>
#include <set>
#include <vector>

#include "passes/analysis/effects.h"

namespace scramjet::passes {
namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;

bool is_comparison_with_number(const Node* node) {
  static const std::set<c10::Symbol> kComparisons = {c10::aten::gt, c10::aten::lt, c10::aten::ge,
                                                     c10::aten::le, c10::aten::eq, c10::aten::ne};
  return kComparisons.count(node->kind()) != 0 && node->inputs().size() == 2 &&
         node->input(0)->type()->isSubtypeOf(*c10::TensorType::get()) &&
         node->input(1)->type()->isSubtypeOf(*c10::NumberType::get()) &&
         torch::jit::toIValue(node->input(1)).has_value();
}

bool is_select(const Node* node) {
  return node->kind() == c10::aten::select && node->inputs().size() == 3 &&
         torch::jit::constant_as<int64_t>(node->input(1)) &&
         torch::jit::constant_as<int64_t>(node->input(2));
}

struct Match {
  Node* truth;  // aten::Bool
  Node* comparison;
  std::vector<int64_t> dims, indices;
  Value* tensor;
};

std::optional<Match> match(Node* truth) {
  if (truth->kind() != c10::aten::Bool || truth->inputs().size() != 1) return std::nullopt;
  const auto only_use = [&](const Node* node) {
    return node->output()->uses().size() == 1 && node->owningBlock() == truth->owningBlock();
  };
  Node* comparison = truth->input(0)->node();
  if (!is_comparison_with_number(comparison) || !only_use(comparison)) return std::nullopt;
  Match found{truth, comparison, {}, {}, comparison->input(0)};
  Node* first = comparison;
  while (is_select(found.tensor->node()) && only_use(found.tensor->node())) {
    first = found.tensor->node();
    found.dims.insert(found.dims.begin(), *torch::jit::constant_as<int64_t>(first->input(1)));
    found.indices.insert(found.indices.begin(), *torch::jit::constant_as<int64_t>(first->input(2)));
    found.tensor = first->input(0);
  }
  for (Node* node = first; node != truth; node = node->next()) {
    if (is_barrier(node)) return std::nullopt;
  }
  return found;
}

void rewrite(const Match& found) {
  torch::jit::Graph* graph = found.truth->owningGraph();
  const torch::jit::WithInsertPoint here(found.truth);
  Value* dims = graph->insertConstant(found.dims);
  Value* indices = graph->insertConstant(found.indices);
  Value* comparison = graph->insertConstant(std::string(found.comparison->kind().toUnqualString()));
  Node* made = graph->insertNode(
      graph->create(c10::Symbol::fromQualString("scramjet::compare_element"),
                    {found.tensor, dims, indices, comparison, found.comparison->input(1)}));
  made->output()->setType(c10::BoolType::get());
  made->setSourceRange(found.truth->sourceRange());
  found.truth->output()->replaceAllUsesWith(made->output());
  // The nodes it replaces, from the last: each was read by the next only.
  Node* dead = found.truth;
  const size_t count = 2 + found.dims.size();
  for (size_t k = 0; k < count; ++k) {
    Node* before = dead->input(0)->node();
    dead->destroy();
    dead = before;
  }
}

bool visit(Block* block, PassContext& context) {
  bool changed = false;
  for (auto at = block->nodes().begin(); at != block->nodes().end();) {
    Node* node = *at;
    ++at;
    for (Block* inner : node->blocks()) changed |= visit(inner, context);
    const auto found = match(node);
    if (!found || !context.take_rewrite()) continue;
    rewrite(*found);
    changed = true;
  }
  return changed;
}

}  // namespace

bool compare_elements(PassContext& context) { return visit(context.graph->block(), context); }

}  // namespace scramjet::passes
