#pragma once

// The program that tests and benchmarks of the code generator share.

#include "codegen/scalar_program.h"

namespace scramjet::codegen::cpu {

// y = relu(x); r = y; `length` times r = r * y.
inline ScalarProgram multiply_chain(int length) {
  ScalarBuilder b({at::kFloat});
  const Value x = b.load(0), zero = b.constant(0, at::kFloat);
  const Value y = b.select(b.binary(Opcode::kLt, x, zero), zero, x);
  Value r = y;
  for (int k = 0; k < length; ++k) r = b.binary(Opcode::kMul, r, y);
  b.store(r, at::kFloat);
  return b.finish();
}

}  // namespace scramjet::codegen::cpu
