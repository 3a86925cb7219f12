#pragma once

// One instruction of a ScalarProgram as LLVM vector code.

#include <llvm/IR/IRBuilder.h>

#include <set>
#include <string>

#include "codegen/cpu/target.h"
#include "codegen/scalar_program.h"

namespace scramjet::codegen::cpu {

// Translates arithmetic on vectors of `lanes` elements; memory is the emitter's business. Bool
// values are vectors of i1 in registers and bytes in memory; half and bfloat16 are float in
// registers.
class VectorCode {
 public:
  VectorCode(llvm::IRBuilder<>& builder, llvm::Module& module, int lanes, VectorUnit unit)
      : b_(builder), module_(module), lanes_(lanes), unit_(unit) {}

  llvm::Type* register_type(at::ScalarType type) const;  // vector
  llvm::Type* memory_type(
      at::ScalarType type) const;  // vector of what lies in memory: integers for half, bool

  llvm::Value* from_memory(llvm::Value* loaded, at::ScalarType memory);
  llvm::Value* to_memory(llvm::Value* value, at::ScalarType memory);

  // kLoad excepted.
  llvm::Value* translate(const Instruction& instruction, llvm::Value* a, llvm::Value* b,
                         llvm::Value* c, at::ScalarType operand_type);

  const std::set<std::string>& called() const { return called_; }

 private:
  llvm::Type* element_type(at::ScalarType type) const;
  llvm::Value* constant(const Instruction& instruction);
  llvm::Value* arithmetic(Opcode opcode, llvm::Value* a, llvm::Value* b, at::ScalarType type);
  llvm::Value* unary(Opcode opcode, llvm::Value* a, at::ScalarType type);
  llvm::Value* compare(Opcode opcode, llvm::Value* a, llvm::Value* b, at::ScalarType type);
  llvm::Value* shift(Opcode opcode, llvm::Value* a, llvm::Value* b, at::ScalarType type);
  llvm::Value* cast(llvm::Value* a, at::ScalarType from, at::ScalarType to);
  llvm::Value* float_to_integer(llvm::Value* a, at::ScalarType to);
  llvm::Value* math(Math math, llvm::Value* a, llvm::Value* b, at::ScalarType type);
  llvm::Value* call(const std::string& symbol, llvm::Value* a, llvm::Value* b, at::ScalarType type);
  llvm::Value* call_scalars(const std::string& symbol, llvm::Value* a, llvm::Value* b,
                            at::ScalarType type);
  int call_width(at::ScalarType type) const;
  llvm::Value* to_bfloat16(llvm::Value* value);
  llvm::Value* splat(uint64_t value, llvm::Type* vector);

  llvm::IRBuilder<>& b_;
  llvm::Module& module_;
  const int lanes_;
  const VectorUnit unit_;
  std::set<std::string> called_;
};

}  // namespace scramjet::codegen::cpu
