#pragma once

// ScalarProgram → an LLVM function with the signature of Loop2d.

#include <llvm/IR/Module.h>

#include <memory>
#include <set>
#include <string>

#include "codegen/cpu/compiled_kernel.h"
#include "codegen/cpu/target.h"

namespace scramjet::codegen::cpu {

inline constexpr const char* kEntry = "scramjet_loop";

struct Emitted {
  std::unique_ptr<llvm::Module> module;
  std::set<std::string> called;  // math functions that it needs
};

// `target` is resolved (not kHost).
Emitted emit(const CompileSpec& spec, Target target, llvm::LLVMContext& context);

}  // namespace scramjet::codegen::cpu
