#pragma once

// The vector math functions that generated code calls: Sleef's, as libtorch_cpu carries them for
// ATen's own kernels.

#include <cstdint>
#include <string>

#include "codegen/scalar_program.h"

namespace scramjet::codegen::cpu {

// "Sleef_expf16_u10" for kExp on 16 floats. Of 1 lane: the C library's "expf"; libtorch carries no
// Sleef for CPUs without AVX2.
std::string math_symbol(Math math, bool is_double, int lanes);
// kRem's: "Sleef_fmodf16".
std::string remainder_symbol(bool is_double, int lanes);

// Sleef's float versions of these overflow where the result does not (asinh from 1.8e19 on). ATen
// calls the C library's scalars; in double, Sleef's are right for every float.
bool needs_double(Math math);
// The same of Sleef's double versions: doubles take the C library's, as in ATen.
bool overflows_early(Math math);

// Address of a function in this process, or 0.
uint64_t find_symbol(const std::string& name);

}  // namespace scramjet::codegen::cpu
