#pragma once

// How wide a kernel's vectors are and how many of them one loop iteration carries.

#include "codegen/cpu/compiled_kernel.h"
#include "codegen/cpu/target.h"

namespace scramjet::codegen::cpu {

struct Schedule {
  int lanes;   // elements of a vector, the same for every type of the program; a power of two
  int unroll;  // vectors in flight
};

Schedule choose_schedule(const CompileSpec& spec, VectorUnit unit);

}  // namespace scramjet::codegen::cpu
