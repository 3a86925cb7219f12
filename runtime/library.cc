// Registers scramjet::run, scramjet::call and their classes: what a saved compiled module needs to
// load and run.

#include <torch/custom_class.h>
#include <torch/library.h>

#include "runtime/autocast_region.h"
#include "runtime/compare_element.h"
#include "runtime/kernel_object.h"
#include "runtime/plan.h"
#include "runtime/run.h"

namespace scramjet::runtime {
namespace {

using torch::jit::Stack;

// run(Kernel kernel, Tensor[] inputs) -> Tensor[]. Boxed, so that an input whose last reference is
// on the stack still shows it.
void run_boxed(const c10::OperatorHandle&, Stack* stack) {
  auto list = torch::jit::pop(*stack).toTensorList();
  const auto kernel = torch::jit::pop(*stack).toCustomClass<KernelObject>();
  std::vector<at::Tensor> inputs;
  inputs.reserve(list.size());
  const bool owned = list.use_count() == 1;
  for (size_t k = 0; k < list.size(); ++k) inputs.push_back(owned ? list.extract(k) : list.get(k));
  stack->emplace_back(run(*kernel, std::move(inputs)));
}

// call(Plan plan, Any self, Any[] inputs) -> Any
void call_boxed(const c10::OperatorHandle&, Stack* stack) {
  auto inputs = torch::jit::pop(*stack).toList();
  auto self = torch::jit::pop(*stack).toObject();
  const auto plan = torch::jit::pop(*stack).toCustomClass<Plan>();
  Stack frame;
  frame.reserve(inputs.size() + 1);
  frame.emplace_back(self);
  const bool owned = inputs.use_count() == 1;
  for (size_t k = 0; k < inputs.size(); ++k)
    frame.push_back(owned ? inputs.extract(k) : inputs.get(k));
  plan->run(*self, frame);
  stack->push_back(std::move(frame.back()));
}

// Boxed: its arguments are read where they lie, without vectors of their own.
void compare_element_boxed(const c10::OperatorHandle&, Stack* stack) {
  const auto arguments = torch::jit::last(*stack, 5);
  const c10::List<int64_t> dims = arguments[1].toIntList(), indices = arguments[2].toIntList();
  const c10::DimVector dim(dims.begin(), dims.end()), index(indices.begin(), indices.end());
  const bool result = compare_element(arguments[0].toTensor(), dim, index,
                                      arguments[3].toStringRef(), arguments[4].toScalar());
  torch::jit::drop(*stack, 5);
  stack->emplace_back(result);
}

TORCH_LIBRARY_FRAGMENT(scramjet, m) {
  m.class_<KernelObject>("Kernel")
      .def("text", &KernelObject::text)
      .def_pickle([](const c10::intrusive_ptr<KernelObject>& self) { return self->text(); },
                  [](const std::string& text) { return KernelObject::from_text(text); });
  m.class_<Plan>("Plan")
      .def("report", &Plan::report)
      .def_pickle([](const c10::intrusive_ptr<Plan>& self) { return self->report(); },
                  [](const std::string& report) { return c10::make_intrusive<Plan>(report); });

  m.def(torch::schema(
            "run(__torch__.torch.classes.scramjet.Kernel kernel, Tensor[] inputs) -> Tensor[]",
            c10::AliasAnalysisKind::FROM_SCHEMA),
        torch::CppFunction::makeFromBoxedFunction<&run_boxed>());
  // It runs a whole graph, which may write to anything it reaches.
  m.def(torch::schema(
            "call(__torch__.torch.classes.scramjet.Plan plan, Any self, Any[] inputs) -> Any",
            c10::AliasAnalysisKind::CONSERVATIVE),
        torch::CppFunction::makeFromBoxedFunction<&call_boxed>());
  m.def(torch::schema("enter_autocast(str device, ScalarType dtype, bool enabled) -> ()",
                      c10::AliasAnalysisKind::CONSERVATIVE),
        [](const std::string& device, at::ScalarType dtype, bool enabled) {
          enter_autocast(device, dtype, enabled);
        });
  m.def(torch::schema("compare_element(Tensor x, int[] dims, int[] indices, str comparison, Scalar "
                      "other) -> bool",
                      c10::AliasAnalysisKind::FROM_SCHEMA),
        torch::CppFunction::makeFromBoxedFunction<&compare_element_boxed>());
  m.def(torch::schema("exit_autocast() -> ()", c10::AliasAnalysisKind::CONSERVATIVE),
        &exit_autocast);
}

}  // namespace
}  // namespace scramjet::runtime
