#include "runtime/plan.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/forward_grad.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <optional>
#include <utility>

#include "runtime/autocast_region.h"
#include "runtime/autograd_bypass.h"
#include "runtime/prepare_graph.h"

namespace scramjet::runtime {

struct Plan::Program {
  std::shared_ptr<const c10::ClassType> type;  // kept, so that its address names this class only
  bool can_bypass_autograd;
  torch::jit::Code code;
  Program* next;
};

namespace {

// Skips autograd's kernels where the graph allows it and nothing differentiates.
class AutogradBypass {
 public:
  explicit AutogradBypass(bool allowed) {
    if (allowed && !c10::GradMode::is_enabled() && !forward_mode()) guard_.emplace();
  }

 private:
  // Forward-mode derivatives are computed with gradients off too.
  static bool forward_mode() {
    return torch::autograd::ForwardADLevel::try_get_by_idx(0) != nullptr;
  }

  std::optional<at::AutoDispatchBelowADInplaceOrView> guard_;
};

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
  prepare_graph(*graph);
  auto* made = new Program{type, can_bypass_autograd(*graph), torch::jit::Code(graph, "forward"),
                           programs_.load()};
  programs_.store(made, std::memory_order_release);
  return *made;
}

void Plan::run(c10::ivalue::Object& self, torch::jit::Stack& stack) {
  const Program& found = program(self);
  const AutocastGuard autocast;
  const AutogradBypass bypass(found.can_bypass_autograd);
  torch::jit::InterpreterState(found.code).run(stack);
}

}  // namespace scramjet::runtime
