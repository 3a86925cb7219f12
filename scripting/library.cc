// compile and explain as operators, so that Python reaches them without an extension module of its
// own.

#include <torch/custom_class.h>
#include <torch/library.h>

#include "scripting/compile.h"

namespace scramjet {
namespace {

using torch::jit::Stack;

torch::jit::Module to_module(const c10::IValue& value, const char* op) {
  TORCH_CHECK_TYPE(value.isModule(), "scramjet::", op,
                   ": argument 'module' must be a scripted module, got ", value.tagKind());
  return torch::jit::Module(value.toObject());
}

void compile_boxed(const c10::OperatorHandle&, Stack* stack) {
  CompileOptions options;
  c10::IValue module;
  bool fullgraph, dynamic, freeze, fast_math, round_like_eager, async;
  std::vector<std::string> skip_passes;
  std::optional<int64_t> rewrite_budget;
  std::optional<at::ScalarType> autocast;
  std::string autocast_device;
  c10::IValue autocast_overrides;
  torch::jit::pop(*stack, module, fullgraph, dynamic, options.mode, freeze, fast_math,
                  round_like_eager, async, skip_passes, rewrite_budget, autocast, autocast_device,
                  autocast_overrides);
  options.fullgraph = fullgraph;
  options.dynamic = dynamic;
  options.freeze = freeze;
  options.fast_math = fast_math;
  options.round_like_eager = round_like_eager;
  options.async = async;
  options.skip_passes = std::move(skip_passes);
  if (rewrite_budget) options.rewrite_budget = *rewrite_budget;
  if (autocast) {
    options.autocast = {c10::Device(autocast_device).type(), *autocast, {}};
    for (const auto& item : autocast_overrides.toGenericDict())
      options.autocast->overrides[item.key().toStringRef()] = item.value().toStringRef();
  }
  stack->emplace_back(compile(to_module(module, "compile"), options)._ivalue());
}

void explain_boxed(const c10::OperatorHandle&, Stack* stack) {
  const c10::IValue module = torch::jit::pop(*stack);
  stack->emplace_back(explain(to_module(module, "explain")));
}

TORCH_LIBRARY_FRAGMENT(scramjet, m) {
  constexpr auto kConservative = c10::AliasAnalysisKind::CONSERVATIVE;
  m.def(torch::schema(
            "_compile(Any module, bool fullgraph, bool dynamic, str mode, bool freeze, bool "
            "fast_math, bool round_like_eager, bool async_, str[] skip_passes, int? "
            "rewrite_budget, ScalarType? autocast, str autocast_device, Dict(str, str) "
            "autocast_overrides) -> Any",
            kConservative),
        torch::CppFunction::makeFromBoxedFunction<&compile_boxed>());
  m.def(torch::schema("_explain(Any module) -> str", kConservative),
        torch::CppFunction::makeFromBoxedFunction<&explain_boxed>());
  m.def("_compilations() -> int", &compilations);
}

}  // namespace
}  // namespace scramjet
