#include "codegen/cpu/jit.h"

#include <llvm/ExecutionEngine/Orc/CompileUtils.h>

#include <atomic>

#include "codegen/cpu/math_functions.h"

namespace scramjet::codegen::cpu {
namespace {

// LLVM calls these where the CPU has no conversion instructions for half; the shared libgcc does
// not export them.
float widen_half(_Float16 value) { return value; }
_Float16 narrow_to_half(float value) { return static_cast<_Float16>(value); }

template <typename Function>
llvm::orc::ExecutorSymbolDef symbol(Function* function) {
  return {llvm::orc::ExecutorAddr::fromPtr(function),
          llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
}

}  // namespace

JitCode::~JitCode() { llvm::consumeError(jit_.getExecutionSession().removeJITDylib(library_)); }

Jit::Jit(Target target) : target_(target) {
  llvm::orc::LLJITBuilder builder;
  builder.setJITTargetMachineBuilder(target_machine_builder(target));
  // No static initialisers, no thread-local variables: the platform's support code would only cost
  // time.
  builder.setPlatformSetUp(llvm::orc::setUpInactivePlatform);
  // A target machine serves one compilation at a time; this makes one for each.
  builder.setCompileFunctionCreator(
      [](llvm::orc::JITTargetMachineBuilder machine)
          -> llvm::Expected<std::unique_ptr<llvm::orc::IRCompileLayer::IRCompiler>> {
        return std::make_unique<llvm::orc::ConcurrentIRCompiler>(std::move(machine));
      });
  jit_ = llvm::cantFail(builder.create());
  // Errors reach the caller as a reason; LLVM would also print them.
  jit_->getExecutionSession().setErrorReporter(
      [](llvm::Error error) { llvm::consumeError(std::move(error)); });
}

Jit& Jit::of(Target target) {
  // Never destroyed: kernels may be freed by other statics at exit.
  switch (target) {
    case Target::kAvx512: {
      static Jit* avx512 = new Jit(Target::kAvx512);
      return *avx512;
    }
    case Target::kAvx2: {
      static Jit* avx2 = new Jit(Target::kAvx2);
      return *avx2;
    }
    default: {
      static Jit* sse = new Jit(Target::kSse);
      return *sse;
    }
  }
}

llvm::Expected<std::unique_ptr<JitCode>> Jit::add(llvm::orc::ThreadSafeModule module,
                                                  const std::set<std::string>& called) {
  static std::atomic<uint64_t> count{0};
  llvm::orc::SymbolMap symbols;
  for (const std::string& name : called) {
    const uint64_t address = find_symbol(name);
    if (address == 0) return llvm::createStringError("libtorch has no " + name);
    symbols[jit_->mangleAndIntern(name)] = {llvm::orc::ExecutorAddr(address),
                                            llvm::JITSymbolFlags::Exported};
  }
  if (target_ == Target::kSse) {
    symbols[jit_->mangleAndIntern("__extendhfsf2")] = symbol(&widen_half);
    symbols[jit_->mangleAndIntern("__truncsfhf2")] = symbol(&narrow_to_half);
  }
  auto library = jit_->createJITDylib("kernel" + std::to_string(count++));
  if (!library) return library.takeError();
  std::unique_ptr<JitCode> code(new JitCode(*jit_, *library));
  if (!symbols.empty()) {
    if (auto error = library->define(llvm::orc::absoluteSymbols(std::move(symbols)))) return error;
  }
  if (auto error = jit_->addIRModule(*library, std::move(module))) return error;
  return code;
}

}  // namespace scramjet::codegen::cpu
