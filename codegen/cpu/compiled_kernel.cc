#include "codegen/cpu/compiled_kernel.h"

#include <c10/util/Exception.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/Support/raw_ostream.h>

#include "codegen/cpu/emitter.h"
#include "codegen/cpu/jit.h"
#include "codegen/cpu/target.h"
#include "codegen/debug_dump.h"

namespace scramjet::codegen::cpu {
namespace {

constexpr size_t kLongestProgram = 20000;

class JitKernel final : public CompiledKernel {
 public:
  JitKernel(std::unique_ptr<JitCode> code, Loop2d loop) : code_(std::move(code)), loop_(loop) {}
  Loop2d loop() const override { return loop_; }

 private:
  const std::unique_ptr<JitCode> code_;
  const Loop2d loop_;
};

Target checked(Target target) {
  const Target resolved = resolve(target);
  TORCH_CHECK_VALUE(host_supports(resolved),
                    "scramjet: this CPU lacks the instructions of the target asked for");
  return resolved;
}

}  // namespace

std::shared_ptr<const CompiledKernel> compile(const CompileSpec& spec, std::string* reason,
                                              Target target) {
  TORCH_INTERNAL_ASSERT(spec.access.size() ==
                        spec.program.inputs.size() + spec.program.outputs.size());
  if (spec.program.instructions.size() > kLongestProgram) {
    *reason = "a program of " + std::to_string(spec.program.instructions.size()) + " instructions";
    return nullptr;
  }
  const Target resolved = checked(target);
  if (debug_dumps_enabled()) {
    debug_dump(spec.name + ".program", spec.program.to_string());
    debug_dump(spec.name + ".ll", llvm_ir(spec, resolved));
    debug_dump(spec.name + ".s", assembly(spec, resolved));
  }
  Jit& jit = Jit::of(resolved);
  auto context = std::make_unique<llvm::LLVMContext>();
  Emitted emitted = emit(spec, resolved, *context);
  emitted.module->setDataLayout(jit.layout());
  auto code = jit.add({std::move(emitted.module), std::move(context)}, emitted.called);
  if (!code) return *reason = llvm::toString(code.takeError()), nullptr;
  auto loop = (*code)->find<Loop2d>(kEntry);
  if (!loop) return *reason = llvm::toString(loop.takeError()), nullptr;
  return std::make_shared<JitKernel>(std::move(*code), *loop);
}

std::string llvm_ir(const CompileSpec& spec, Target target) {
  llvm::LLVMContext context;
  std::string text;
  llvm::raw_string_ostream out(text);
  emit(spec, checked(target), context).module->print(out, nullptr);
  return text;
}

std::string assembly(const CompileSpec& spec, Target target) {
  const Target resolved = checked(target);
  llvm::LLVMContext context;
  const Emitted emitted = emit(spec, resolved, context);
  const auto machine = make_target_machine(resolved);
  emitted.module->setDataLayout(machine->createDataLayout());
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream out(text);
  llvm::legacy::PassManager passes;
  TORCH_INTERNAL_ASSERT(
      !machine->addPassesToEmitFile(passes, out, nullptr, llvm::CodeGenFileType::AssemblyFile));
  passes.run(*emitted.module);
  return text.str().str();
}

}  // namespace scramjet::codegen::cpu
