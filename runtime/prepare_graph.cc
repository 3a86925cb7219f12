#include "runtime/prepare_graph.h"

#include <algorithm>

namespace scramjet::runtime {
namespace {

using torch::jit::Block;
using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Use;
using torch::jit::Value;

// torch's interpreter emits a node with one output and one use right before that use, a loop or
// branch too. The body of such a loop may then read a register that an earlier operand of the same
// use has given away. A second output keeps every loop and branch where it stands.
void keep_in_place(Node* node) {
  if (node->outputs().size() != 1 || node->blocks().empty()) return;
  Graph* graph = node->owningGraph();
  if (node->kind() == c10::prim::Loop) {
    const torch::jit::WithInsertPoint before(node);
    node->addInput(graph->insertConstant(c10::IValue()));
    Block* body = node->blocks()[0];
    body->registerOutput(body->addInput()->setType(c10::NoneType::get()));
  } else if (node->kind() == c10::prim::If) {
    for (Block* branch : node->blocks()) {
      const torch::jit::WithInsertPoint inside(branch);
      branch->registerOutput(graph->insertConstant(c10::IValue()));
    }
  } else {
    return;
  }
  node->addOutput()->setType(c10::NoneType::get());
}

// Does the use read the list and forget it? Writes and results that share memory with an argument
// stand in the schema; an op without one may keep the list.
bool only_reads(const Use& use) {
  if (!use.user->kind().is_aten()) return false;
  const c10::FunctionSchema* schema = use.user->maybeSchema();
  if (schema == nullptr || use.offset >= schema->arguments().size()) return false;
  return schema->arguments()[use.offset].alias_info() == nullptr;
}

// %1 : int[] = prim::ListConstruct(%two, %two)  →  prim::Constant[value=[2, 2]]()
void make_once(Node* node) {
  if (node->kind() != c10::prim::ListConstruct || node->inputs().empty()) return;
  const auto element = node->output()->type()->expectRef<c10::ListType>().getElementType();
  const bool number = element->kind() == c10::TypeKind::IntType ||
                      element->kind() == c10::TypeKind::FloatType ||
                      element->kind() == c10::TypeKind::BoolType;
  const auto& uses = node->output()->uses();
  if (!number || !std::all_of(uses.begin(), uses.end(), only_reads)) return;
  c10::impl::GenericList list(element);
  for (const Value* input : node->inputs()) {
    const auto value = torch::jit::toIValue(input);
    if (!value) return;
    list.push_back(*value);
  }
  const torch::jit::WithInsertPoint here(node);
  node->output()->replaceAllUsesWith(node->owningGraph()->insertConstant(list));
}

void prepare(Block* block) {
  for (auto at = block->nodes().begin(); at != block->nodes().end();) {
    Node* node = *at++;
    for (Block* inner : node->blocks()) prepare(inner);
    keep_in_place(node);
    make_once(node);
    if (node->kind() == c10::prim::ListConstruct && !node->hasUses()) node->destroy();
  }
}

}  // namespace

void prepare_graph(Graph& graph) { prepare(graph.block()); }

}  // namespace scramjet::runtime
