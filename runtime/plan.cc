#include "runtime/plan.h"

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <utility>

#include "runtime/autocast_region.h"

namespace scramjet::runtime {

struct Plan::Program {
  std::shared_ptr<const c10::ClassType> type;  // kept, so that its address names this class only
  torch::jit::Code code;
  Program* next;
};

namespace {

using torch::jit::Block;
using torch::jit::Node;

// torch's interpreter emits a node with one output and one use right before that use, a loop or
// branch too. The body of such a loop may then read a register that an earlier operand of the same
// use has given away. A second output keeps every loop and branch where it stands.
void keep_in_place(Block* block) {
  for (Node* node : block->nodes()) {
    for (Block* inner : node->blocks()) keep_in_place(inner);
    if (node->outputs().size() != 1 || node->blocks().empty()) continue;
    torch::jit::Graph* graph = node->owningGraph();
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
      continue;
    }
    node->addOutput()->setType(c10::NoneType::get());
  }
}

}  // namespace

Plan::Plan(std::string report) : report_(std::move(report)) {}

Plan::~Plan() {
  Program* head = programs_.load();
  while (head != nullptr) delete std::exchange(head, head->next);
}

const Plan::Program& Plan::program(c10::ivalue::Object& self) {
  const auto type = self.type();
  const auto find = [&]() -> const Program* {
    const Program* at = programs_.load(std::memory_order_acquire);
    while (at != nullptr && at->type != type) at = at->next;
    return at;
  };
  if (const Program* found = find()) return *found;
  const std::lock_guard lock(make_);
  if (const Program* found = find()) return *found;
  torch::jit::Function* method = type->findMethod(kOptimisedMethod);
  TORCH_CHECK(
      method != nullptr,
      "scramjet: a compiled module cannot be frozen afterwards (its optimised graph was dropped); "
      "freeze first, with scramjet::compile's option 'freeze'");
  const auto graph = torch::jit::toGraphFunction(*method).graph()->copy();
  keep_in_place(graph->block());
  auto* made = new Program{type, torch::jit::Code(graph, "forward"), programs_.load()};
  programs_.store(made, std::memory_order_release);
  return *made;
}

void Plan::run(c10::ivalue::Object& self, torch::jit::Stack& stack) {
  const AutocastGuard guard;
  torch::jit::InterpreterState(program(self).code).run(stack);
}

}  // namespace scramjet::runtime
