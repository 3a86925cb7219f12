#pragma once

// The vector math functions that generated code calls: Sleef's, as libtorch_cpu carries them for ATen's own kernels.

#include <cstdint>
#include <string>

#include "codegen/scalar_program.h"

namespace scramjet::codegen::cpu {

// "Sleef_expf16_u10" for kExp on 16 floats.
std::string math_symbol(Math math, bool is_double, int lanes);

// Its address in this process, or 0.
uint64_t find_symbol(const std::string& name);

}  // namespace scramjet::codegen::cpu
