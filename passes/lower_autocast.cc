#include "passes/lower_autocast.h"

#include <unordered_map>
#include <vector>

namespace scramjet::passes {
namespace {

using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;

bool is_autocast(const Value* value) {
  const auto type = value->type()->cast<c10::ClassType>();
  if (!type || !type->name()) return false;
  const std::string name = type->name()->qualifiedName();
  return name.find("amp.autocast_mode.") !=
         std::string::npos;  // torch.amp's, torch.cpu.amp's and torch.cuda.amp's
}

// The beginnings and ends of autocast regions, in every block.
struct Regions {
  std::vector<Node*> enters, exits;
};

Regions list_regions(const torch::jit::Block* block) {
  Regions found;
  for_each_node(block, [&](Node* node) {
    const bool enter = node->kind() == c10::prim::Enter;
    if ((!enter && node->kind() != c10::prim::Exit) || !is_autocast(node->input(0))) return;
    (enter ? found.enters : found.exits).push_back(node);
  });
  return found;
}

// Replaces `node` by scramjet::`op`.
Node* replace(Node* node, const char* op, const std::vector<Value*>& inputs, size_t outputs) {
  Graph* graph = node->owningGraph();
  const auto kind = c10::Symbol::fromQualString(std::string("scramjet::") + op);
  Node* made = graph->create(kind, inputs, outputs)->insertBefore(node);
  made->setSourceRange(node->sourceRange());
  if (node->kind() == c10::prim::Enter) {  // `as` gives the object itself
    node->output()->replaceAllUsesWith(node->input(0));
  } else if (node->hasUses()) {
    const torch::jit::WithInsertPoint here(node);
    node->output()->replaceAllUsesWith(graph->insertConstant(c10::IValue()));
  }
  node->destroy();
  return made;
}

// Does every end see its own beginning? Where one does not, the graph is left as it is.
bool all_matched(const Regions& regions) {
  for (const Node* exit : regions.exits) {
    int seen = 0;
    for (const Node* enter : regions.enters) {
      seen += enter->input(0) == exit->input(0) && exit->isDominatedBy(enter);
    }
    if (seen != 1) return false;
  }
  return true;
}

}  // namespace

bool lower_autocast(PassContext& context) {
  const Regions regions = list_regions(context.graph->block());
  if (regions.enters.empty() || !all_matched(regions)) return false;
  std::unordered_map<const Value*, Value*> saved;  // by the autocast object
  for (Node* enter : regions.enters) {
    Value* object = enter->input(0);
    std::vector<Value*> arguments;
    for (const char* name : {"device", "fast_dtype", "_enabled"}) {
      arguments.push_back(
          context.graph->createGetAttr(object, name)->insertBefore(enter)->output());
    }
    Node* made = replace(enter, "enter_autocast", arguments, 1);
    made->output()->setType(c10::ListType::ofInts());
    saved[object] = made->output();
  }
  for (Node* exit : regions.exits) {
    Value* const state = saved.at(exit->input(0));
    replace(exit, "exit_autocast", {state}, 0);
  }
  return true;
}

}  // namespace scramjet::passes
