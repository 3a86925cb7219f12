#include "codegen/cpu/compiled_kernel.h"

#include <c10/util/Exception.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/Support/raw_ostream.h>

#include <atomic>

#include "codegen/cpu/emitter.h"
#include "codegen/cpu/math_functions.h"
#include "codegen/cpu/target.h"
#include "codegen/debug_dump.h"

namespace scramjet::codegen::cpu {
namespace {

constexpr size_t kLongestProgram = 20000;

std::string error_text(llvm::Error error) { return llvm::toString(std::move(error)); }

// One JIT per process and instruction set; each kernel is a dylib of its own in it.
class Jit {
 public:
  explicit Jit(Target target) : machine_(make_target_machine(target)) {
    llvm::orc::LLJITBuilder builder;
    llvm::orc::JITTargetMachineBuilder machine(machine_->getTargetTriple());
    machine.setCPU(machine_->getTargetCPU().str());
    machine.addFeatures({});
    machine.getFeatures() = llvm::SubtargetFeatures(machine_->getTargetFeatureString());
    machine.setCodeGenOptLevel(machine_->getOptLevel());
    machine.setOptions(machine_->Options);
    builder.setJITTargetMachineBuilder(std::move(machine));
    jit_ = llvm::cantFail(builder.create());
  }

  static Jit& of(Target target) {
    // Never destroyed: kernels may be freed by other statics at exit.
    static Jit* host = new Jit(resolve(Target::kHost));
    if (target == resolve(Target::kHost)) return *host;
    static Jit* avx2 = new Jit(Target::kAvx2);
    static Jit* sse = new Jit(Target::kSse);
    return target == Target::kAvx2 ? *avx2 : *sse;
  }

  llvm::orc::LLJIT& jit() { return *jit_; }
  const llvm::DataLayout& layout() const { return jit_->getDataLayout(); }

 private:
  std::unique_ptr<llvm::TargetMachine> machine_;
  std::unique_ptr<llvm::orc::LLJIT> jit_;
};

class JitKernel final : public CompiledKernel {
 public:
  JitKernel(Jit& jit, llvm::orc::JITDylib& library) : jit_(jit), library_(library) {}
  ~JitKernel() override { llvm::consumeError(jit_.jit().getExecutionSession().removeJITDylib(library_)); }
  Loop2d loop() const override { return loop_; }
  void set_loop(Loop2d loop) { loop_ = loop; }

 private:
  Jit& jit_;
  llvm::orc::JITDylib& library_;
  Loop2d loop_ = nullptr;
};

// False where libtorch lacks a function.
bool define_symbols(Jit& jit, llvm::orc::JITDylib& library, const std::set<std::string>& called, std::string* reason) {
  llvm::orc::SymbolMap symbols;
  for (const std::string& name : called) {
    const uint64_t address = find_symbol(name);
    if (address == 0) {
      *reason = "libtorch has no " + name;
      return false;
    }
    symbols[jit.jit().mangleAndIntern(name)] = {llvm::orc::ExecutorAddr(address), llvm::JITSymbolFlags::Exported};
  }
  llvm::cantFail(library.define(llvm::orc::absoluteSymbols(std::move(symbols))));
  return true;
}

Target checked(Target target) {
  const Target resolved = resolve(target);
  TORCH_CHECK_VALUE(host_supports(resolved), "scramjet: this CPU lacks the instructions of the target asked for");
  return resolved;
}

}  // namespace

std::shared_ptr<const CompiledKernel> compile(const CompileSpec& spec, std::string* reason, Target target) {
  TORCH_INTERNAL_ASSERT(spec.access.size() == spec.program.inputs.size() + spec.program.outputs.size());
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

  static std::atomic<uint64_t> count{0};
  auto library = jit.jit().createJITDylib("kernel" + std::to_string(count++));
  if (!library) return *reason = error_text(library.takeError()), nullptr;
  auto kernel = std::make_shared<JitKernel>(jit, *library);
  if (!define_symbols(jit, *library, emitted.called, reason)) return nullptr;
  llvm::orc::ThreadSafeModule module(std::move(emitted.module), std::move(context));
  if (auto error = jit.jit().addIRModule(*library, std::move(module))) return *reason = error_text(std::move(error)), nullptr;
  auto address = jit.jit().lookup(*library, kEntry);
  if (!address) return *reason = error_text(address.takeError()), nullptr;
  kernel->set_loop(address->toPtr<Loop2d>());
  return kernel;
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
  TORCH_INTERNAL_ASSERT(!machine->addPassesToEmitFile(passes, out, nullptr, llvm::CodeGenFileType::AssemblyFile));
  passes.run(*emitted.module);
  return text.str().str();
}

}  // namespace scramjet::codegen::cpu
