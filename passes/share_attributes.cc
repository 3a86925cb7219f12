#include "passes/share_attributes.h"

#include <map>
#include <optional>
#include <set>
#include <utility>

namespace scramjet::passes {
namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;

using Reads = std::map<std::pair<const Value*, std::string>, Value*>;  // object, attribute → value

// The names of the attributes that the graph sets, or nullopt where something may set others.
std::optional<std::set<std::string>> attributes_set(const Block* block) {
  std::set<std::string> names;
  bool unknown = false;
  for_each_node(block, [&](const Node* node) {
    const c10::Symbol kind = node->kind();
    if (kind == c10::prim::SetAttr) names.insert(node->s(c10::attr::name));
    unknown |= kind == c10::prim::CallMethod || kind == c10::prim::CallFunction ||
               kind == c10::prim::PythonOp || node->hasAttribute(c10::attr::Subgraph);
  });
  if (unknown) return std::nullopt;
  return names;
}

// `reads`: what holds at the beginning of the block; by value, for what a branch reads holds there
// only.
bool share(Block* block, Reads reads, const std::set<std::string>& set, PassContext& context) {
  bool changed = false;
  for (auto at = block->nodes().begin(); at != block->nodes().end();) {
    Node* node = *at++;
    for (Block* inner : node->blocks()) changed |= share(inner, reads, set, context);
    if (node->kind() != c10::prim::GetAttr || set.count(node->s(c10::attr::name)) != 0) continue;
    Value*& value = reads[{node->input(), node->s(c10::attr::name)}];
    if (value == nullptr) {
      value = node->output();
    } else if (context.take_rewrite()) {
      node->output()->replaceAllUsesWith(value);
      node->destroy();
      changed = true;
    }
  }
  return changed;
}

}  // namespace

bool share_attributes(PassContext& context) {
  const auto set = attributes_set(context.graph->block());
  return set && share(context.graph->block(), {}, *set, context);
}

}  // namespace scramjet::passes
