#pragma once

// How the emitted loops read and write one operand: a vector at a time, whole or the first few
// lanes of one.

#include <llvm/IR/IRBuilder.h>

#include "codegen/cpu/compiled_kernel.h"
#include "codegen/cpu/target.h"
#include "codegen/cpu/vector_code.h"

namespace scramjet::codegen::cpu {

// The lanes of the loop's last vectors that hold elements.
struct Lanes {
  llvm::Value* count = nullptr;  // i64 in [1, lanes]
  llvm::Value* mask = nullptr;   // the same as <lanes x i1>
};

class OperandAccess {
 public:
  OperandAccess(llvm::IRBuilder<>& builder, VectorCode& code, at::ScalarType memory, Access access,
                int lanes, VectorUnit unit);

  // In the function's entry block. `stride`: bytes along the inner dimension.
  void start(llvm::Value* stride);
  // At the start of a row (an outer iteration): `base` is the address of its first element.
  void start_row(llvm::Value* base);

  // All lanes, from element `index` of the row on.
  llvm::Value* load(llvm::Value* index);
  void store(llvm::Value* index, llvm::Value* value);
  // Only `lanes`; touches no memory beyond them.
  llvm::Value* load(llvm::Value* index, const Lanes& lanes);
  void store(llvm::Value* index, llvm::Value* value, const Lanes& lanes);

 private:
  llvm::Value* address(llvm::Value* index);
  llvm::Value* load_elements(llvm::Value* from);
  void store_elements(llvm::Value* to, llvm::Value* value);
  // Copies `count` elements one by one between places with byte strides.
  void copy(llvm::Value* to, llvm::Value* to_stride, llvm::Value* from, llvm::Value* from_stride,
            llvm::Value* count);
  llvm::Value* element(llvm::Value* base, int lane);

  llvm::IRBuilder<>& b_;
  VectorCode& code_;
  const at::ScalarType memory_;
  const Access access_;
  const int lanes_;
  const int64_t size_;  // bytes of an element
  bool masked_;         // the CPU has masked loads and stores for such elements
  llvm::FixedVectorType* type_;
  llvm::Value *stride_ = nullptr, *stride3_ = nullptr, *stride4_ = nullptr;
  llvm::Value* base_ = nullptr;
  llvm::Value* broadcast_ = nullptr;
  llvm::Value* staging_ = nullptr;  // memory of one vector, where the CPU has no masked access
};

}  // namespace scramjet::codegen::cpu
