#include "passes/lower_autocast.h"

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

void list_regions(torch::jit::Block* block, std::vector<Node*>& found) {
  for (Node* node : block->nodes()) {
    const bool border = node->kind() == c10::prim::Enter || node->kind() == c10::prim::Exit;
    if (border && is_autocast(node->input(0))) found.push_back(node);
    for (torch::jit::Block* inner : node->blocks()) list_regions(inner, found);
  }
}

void replace(Node* node, const char* op, const std::vector<Value*>& inputs) {
  Graph* graph = node->owningGraph();
  Node* made = graph->create(c10::Symbol::fromQualString(op), inputs, 0)->insertBefore(node);
  made->setSourceRange(node->sourceRange());
  if (node->kind() == c10::prim::Enter) {  // `as` gives the object itself
    node->output()->replaceAllUsesWith(node->input(0));
  } else if (node->hasUses()) {
    torch::jit::WithInsertPoint here(node);
    node->output()->replaceAllUsesWith(graph->insertConstant(c10::IValue()));
  }
  node->destroy();
}

}  // namespace

bool lower_autocast(PassContext& context) {
  std::vector<Node*> regions;
  list_regions(context.graph->block(), regions);
  for (Node* node : regions) {
    if (node->kind() == c10::prim::Exit) {
      replace(node, "scramjet::exit_autocast", {});
      continue;
    }
    std::vector<Value*> arguments;
    for (const char* name : {"device", "fast_dtype", "_enabled"}) {
      arguments.push_back(
          context.graph->createGetAttr(node->input(0), name)->insertBefore(node)->output());
    }
    replace(node, "scramjet::enter_autocast", arguments);
  }
  return !regions.empty();
}

}  // namespace scramjet::passes
