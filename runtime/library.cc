// Registers scramjet::run, scramjet::call and their classes: what a saved compiled module needs to
// load and run.
//
// They are TorchScript operators, which the interpreter calls directly, not dispatcher ops: a
// dispatcher op is seen by whatever mode is on (functorch, FakeTensorMode, make_fx), which would
// take a whole model for one op and not find the tensors behind its `Any` arguments. What they run
// dispatches op by op, as eager's ops do.

#include <torch/csrc/jit/runtime/custom_operator.h>
#include <torch/custom_class.h>
#include <torch/library.h>

#include "runtime/autocast_region.h"
#include "runtime/compare_element.h"
#include "runtime/kernel_object.h"
#include "runtime/linear.h"
#include "runtime/plan.h"
#include "runtime/run.h"

namespace scramjet::runtime {
namespace {

using c10::AliasAnalysisKind;
using torch::jit::Operator;
using torch::jit::Stack;

void run_operation(Stack& stack) {
  auto list = torch::jit::pop(stack).toTensorList();
  const auto kernel = torch::jit::pop(stack).toCustomClass<KernelObject>();
  std::vector<at::Tensor> inputs;
  inputs.reserve(list.size());
  const bool owned = list.use_count() == 1;  // then an input's last reference may be in the list
  for (size_t k = 0; k < list.size(); ++k) inputs.push_back(owned ? list.extract(k) : list.get(k));
  stack.emplace_back(run(*kernel, std::move(inputs)));
}

void call_operation(Stack& stack) {
  auto inputs = torch::jit::pop(stack).toList();
  auto self = torch::jit::pop(stack).toObject();
  const auto plan = torch::jit::pop(stack).toCustomClass<Plan>();
  Stack frame;
  frame.reserve(inputs.size() + 1);
  frame.emplace_back(self);
  const bool owned = inputs.use_count() == 1;
  for (size_t k = 0; k < inputs.size(); ++k)
    frame.push_back(owned ? inputs.extract(k) : inputs.get(k));
  plan->run(*self, frame);
  stack.push_back(std::move(frame.back()));
}

void compare_element_operation(Stack& stack) {
  const auto arguments = torch::jit::last(stack, 5);
  const c10::List<int64_t> dims = arguments[1].toIntList(), indices = arguments[2].toIntList();
  const c10::DimVector dim(dims.begin(), dims.end()), index(indices.begin(), indices.end());
  const bool result = compare_element(arguments[0].toTensor(), dim, index,
                                      arguments[3].toStringRef(), arguments[4].toScalar());
  torch::jit::drop(stack, 5);
  stack.emplace_back(result);
}

void linear_operation(Stack& stack) {
  const auto arguments = torch::jit::last(stack, 3);
  at::Tensor result = runtime::linear(arguments[0].toTensor(), arguments[1].toTensor(),
                                      arguments[2].toOptional<at::Tensor>());
  torch::jit::drop(stack, 3);
  stack.emplace_back(std::move(result));
}

void enter_autocast_operation(Stack& stack) {
  const auto arguments = torch::jit::last(stack, 3);
  const auto saved = enter_autocast(arguments[0].toStringRef(), arguments[1].toScalarType(),
                                    arguments[2].toBool());
  torch::jit::drop(stack, 3);
  stack.emplace_back(saved);
}

void exit_autocast_operation(Stack& stack) { exit_autocast(torch::jit::pop(stack).toIntVector()); }

TORCH_LIBRARY_FRAGMENT(scramjet, m) {
  m.class_<KernelObject>("Kernel")
      .def("text", &KernelObject::text)
      .def_pickle([](const c10::intrusive_ptr<KernelObject>& self) { return self->text(); },
                  [](const std::string& text) { return KernelObject::from_text(text); });
  m.class_<Plan>("Plan")
      .def("report", &Plan::report)
      .def_pickle([](const c10::intrusive_ptr<Plan>& self) { return self->report(); },
                  [](const std::string& report) { return c10::make_intrusive<Plan>(report); });
}

// After the classes, which the schemas name.
const torch::jit::RegisterOperators operators({
    Operator("scramjet::run(__torch__.torch.classes.scramjet.Kernel kernel, Tensor[] inputs) -> "
             "Tensor[]",
             run_operation, AliasAnalysisKind::FROM_SCHEMA),
    // It runs a whole graph, which may write to anything it reaches.
    Operator(
        "scramjet::call(__torch__.torch.classes.scramjet.Plan plan, Any self, Any[] inputs) -> Any",
        call_operation, AliasAnalysisKind::CONSERVATIVE),
    Operator("scramjet::compare_element(Tensor x, int[] dims, int[] indices, str comparison, "
             "Scalar other) -> bool",
             compare_element_operation, AliasAnalysisKind::FROM_SCHEMA),
    Operator("scramjet::linear(Tensor input, Tensor weight, Tensor? bias) -> Tensor",
             linear_operation, AliasAnalysisKind::FROM_SCHEMA),
    Operator("scramjet::enter_autocast(str device, int dtype, bool enabled) -> int[]",
             enter_autocast_operation, AliasAnalysisKind::CONSERVATIVE),
    Operator("scramjet::exit_autocast(int[] saved) -> ()", exit_autocast_operation,
             AliasAnalysisKind::CONSERVATIVE),
});

}  // namespace
}  // namespace scramjet::runtime
