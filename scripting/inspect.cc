#include "scripting/inspect.h"

#include <torch/csrc/jit/api/function_impl.h>

#include "runtime/kernel_object.h"
#include "runtime/plan.h"
#include "scripting/attached_kernels.h"

namespace scramjet {
namespace {

std::string machine_code(const runtime::KernelObject& kernel, const std::string& stage) {
  std::string text;
  kernel.for_each_specialisation([&](const runtime::Specialisation& at) {
    for (const runtime::Variant* v = at.variants; v != nullptr; v = v->next) {
      if (!v->code) continue;
      const codegen::cpu::CompileSpec spec{*at.program, v->access, kernel.options().fast_math,
                                           kernel.kernel().name};
      text += stage == "llvm" ? codegen::cpu::llvm_ir(spec) : codegen::cpu::assembly(spec);
    }
  });
  return text;
}

}  // namespace

std::string dump_stage(const torch::jit::Module& compiled, const std::string& stage) {
  TORCH_CHECK_VALUE(compiled.hasattr(runtime::kPlanAttribute),
                    "scramjet::dump_stage: argument 'compiled': ", compiled.type()->repr_str(),
                    " was not made by scramjet::compile");
  if (stage == "graph") {
    return torch::jit::toGraphFunction(compiled.get_method(runtime::kOptimisedMethod).function())
        .graph()
        ->toString();
  }
  std::string text;
  for (const auto& kernel : attached_kernels(compiled)) {
    text += stage == "kernel" ? kernel->text() : machine_code(*kernel, stage);
  }
  return text;
}

}  // namespace scramjet
