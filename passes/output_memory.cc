#include "passes/output_memory.h"

#include <algorithm>
#include <vector>

#include "passes/fuse_pointwise.h"

namespace scramjet::passes {
namespace {

using torch::jit::Node;
using torch::jit::Use;

bool is_read_by_a_group(const Node* node) {
  const auto& uses = node->output()->uses();
  return std::any_of(uses.begin(), uses.end(), [](const Use& use) {
    if (use.user->kind() != c10::prim::ListConstruct) return false;
    const auto& readers = use.user->output()->uses();
    return std::any_of(readers.begin(), readers.end(),
                       [](const Use& reader) { return reader.user->kind() == run_kind(); });
  });
}

}  // namespace

bool output_memory(PassContext& context) {
  static const c10::Symbol linear = c10::Symbol::fromQualString("scramjet::linear");
  std::vector<Node*> products;
  for_each_node(context.graph->block(), [&](Node* node) {
    if (node->kind() == c10::aten::linear && is_read_by_a_group(node)) products.push_back(node);
  });
  bool changed = false;
  for (Node* node : products) {
    if (!context.take_rewrite()) break;
    node->replaceWithNewSymbol(linear);
    node->destroy();
    changed = true;
  }
  return changed;
}

}  // namespace scramjet::passes
