#pragma once

// Machine code in this process: LLVM's ORC JIT, one for each instruction set.

#include <llvm/ExecutionEngine/Orc/LLJIT.h>

#include <memory>
#include <set>
#include <string>

#include "codegen/cpu/target.h"

namespace scramjet::codegen::cpu {

// The code of one module, freed with this object.
class JitCode {
 public:
  ~JitCode();
  JitCode(const JitCode&) = delete;
  JitCode& operator=(const JitCode&) = delete;
  // Address of a function of the module's.
  template <typename Function>
  llvm::Expected<Function> find(const char* name) const {
    auto address = jit_.lookup(library_, name);
    if (!address) return address.takeError();
    return address->toPtr<Function>();
  }

 private:
  friend class Jit;
  JitCode(llvm::orc::LLJIT& jit, llvm::orc::JITDylib& library) : jit_(jit), library_(library) {}

  llvm::orc::LLJIT& jit_;
  llvm::orc::JITDylib& library_;
};

// Safe to use from several threads.
class Jit {
 public:
  // Of a resolved target (not kHost) that the CPU supports; made at the first call.
  static Jit& of(Target target);

  const llvm::DataLayout& layout() const { return jit_->getDataLayout(); }
  // Compiles nothing yet: find() does. `called`: math functions that the module calls.
  llvm::Expected<std::unique_ptr<JitCode>> add(llvm::orc::ThreadSafeModule module,
                                               const std::set<std::string>& called);

 private:
  explicit Jit(Target target);

  std::unique_ptr<llvm::orc::LLJIT> jit_;
  const Target target_;
};

}  // namespace scramjet::codegen::cpu
