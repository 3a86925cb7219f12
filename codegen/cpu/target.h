#pragma once

// What to generate code for: LLVM's target machine and the vector registers it has.

#include <llvm/ExecutionEngine/Orc/JITTargetMachineBuilder.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>

#include "codegen/cpu/compiled_kernel.h"

namespace scramjet::codegen::cpu {

struct VectorUnit {
  int bytes;      // of a vector register
  int registers;  // how many there are
};

// kHost resolves to the best one; also initialises LLVM, once.
Target resolve(Target target);
VectorUnit vector_unit(Target target);
llvm::orc::JITTargetMachineBuilder target_machine_builder(Target target);
std::unique_ptr<llvm::TargetMachine> make_target_machine(Target target);

}  // namespace scramjet::codegen::cpu
