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
  const auto graph = torch::jit::toGraphFunction(type->getMethod(kOptimisedMethod)).graph();
  auto* made = new Program{type, torch::jit::Code(graph, "forward"), programs_.load()};
  programs_.store(made, std::memory_order_release);
  return *made;
}

void Plan::run(c10::ivalue::Object& self, torch::jit::Stack& stack) {
  const AutocastRegionGuard guard;
  torch::jit::InterpreterState(program(self).code).run(stack);
}

}  // namespace scramjet::runtime
