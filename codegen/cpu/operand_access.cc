#include "codegen/cpu/operand_access.h"

namespace scramjet::codegen::cpu {

OperandAccess::OperandAccess(llvm::IRBuilder<>& builder, VectorCode& code, at::ScalarType memory,
                             Access access, int lanes, VectorUnit unit)
    : b_(builder),
      code_(code),
      memory_(memory),
      access_(access),
      lanes_(lanes),
      size_(static_cast<int64_t>(c10::elementSize(memory))),
      masked_(access == Access::kContiguous &&
              (unit.bytes == 64 || (unit.bytes == 32 && size_ >= 4))),
      type_(llvm::cast<llvm::FixedVectorType>(code.memory_type(memory))) {}

void OperandAccess::start(llvm::Value* stride) {
  stride_ = access_ == Access::kContiguous ? b_.getInt64(size_) : stride;
  if (access_ == Access::kStrided) {
    stride3_ = b_.CreateMul(stride, b_.getInt64(3));
    stride4_ = b_.CreateShl(stride, 2);
  }
  if (access_ != Access::kBroadcast && !masked_) staging_ = b_.CreateAlloca(type_);
}

void OperandAccess::start_row(llvm::Value* base) {
  base_ = base;
  if (access_ != Access::kBroadcast) return;
  llvm::Value* element = b_.CreateAlignedLoad(type_->getElementType(), base, llvm::Align(size_));
  broadcast_ = code_.from_memory(b_.CreateVectorSplat(lanes_, element), memory_);
}

llvm::Value* OperandAccess::address(llvm::Value* index) {
  return b_.CreateGEP(b_.getInt8Ty(), base_, b_.CreateMul(index, stride_));
}

llvm::Value* OperandAccess::load(llvm::Value* index) {
  if (access_ == Access::kBroadcast) return broadcast_;
  llvm::Value* from = address(index);
  llvm::Value* loaded = access_ == Access::kStrided
                            ? load_elements(from)
                            : b_.CreateAlignedLoad(type_, from, llvm::Align(size_));
  return code_.from_memory(loaded, memory_);
}

void OperandAccess::store(llvm::Value* index, llvm::Value* value) {
  value = code_.to_memory(value, memory_);
  if (access_ == Access::kStrided) {
    store_elements(address(index), value);
  } else {
    b_.CreateAlignedStore(value, address(index), llvm::Align(size_));
  }
}

// Scalar loads, four to an address: gather instructions are slow on AMD and, with the mitigations
// for Downfall, on Intel.
llvm::Value* OperandAccess::element(llvm::Value* base, int lane) {
  llvm::Type* byte = b_.getInt8Ty();
  switch (lane % 4) {
    case 0:
      return base;
    case 1:
      return b_.CreateGEP(byte, base, stride_);
    case 2:
      return b_.CreateGEP(byte, base, b_.CreateShl(stride_, 1));
    default:
      return b_.CreateGEP(byte, base, stride3_);
  }
}

llvm::Value* OperandAccess::load_elements(llvm::Value* from) {
  llvm::Value* vector = llvm::PoisonValue::get(type_);
  for (int lane = 0; lane < lanes_; ++lane) {
    if (lane > 0 && lane % 4 == 0) from = b_.CreateGEP(b_.getInt8Ty(), from, stride4_);
    llvm::Value* loaded =
        b_.CreateAlignedLoad(type_->getElementType(), element(from, lane), llvm::Align(size_));
    vector = b_.CreateInsertElement(vector, loaded, lane);
  }
  return vector;
}

void OperandAccess::store_elements(llvm::Value* to, llvm::Value* value) {
  for (int lane = 0; lane < lanes_; ++lane) {
    if (lane > 0 && lane % 4 == 0) to = b_.CreateGEP(b_.getInt8Ty(), to, stride4_);
    b_.CreateAlignedStore(b_.CreateExtractElement(value, lane), element(to, lane),
                          llvm::Align(size_));
  }
}

llvm::Value* OperandAccess::load(llvm::Value* index, const Lanes& lanes) {
  if (access_ == Access::kBroadcast) return broadcast_;
  llvm::Value* loaded = nullptr;
  if (masked_) {
    loaded = b_.CreateMaskedLoad(type_, address(index), llvm::Align(size_), lanes.mask,
                                 llvm::Constant::getNullValue(type_));
  } else {
    // Zeros beyond the end: code for these lanes runs on them too, and denormals or traps there
    // would cost time.
    b_.CreateStore(llvm::Constant::getNullValue(type_), staging_);
    copy(staging_, b_.getInt64(size_), address(index), stride_, lanes.count);
    loaded = b_.CreateLoad(type_, staging_);
  }
  return code_.from_memory(loaded, memory_);
}

void OperandAccess::store(llvm::Value* index, llvm::Value* value, const Lanes& lanes) {
  value = code_.to_memory(value, memory_);
  if (masked_) {
    b_.CreateMaskedStore(value, address(index), llvm::Align(size_), lanes.mask);
  } else {
    b_.CreateStore(value, staging_);
    copy(address(index), stride_, staging_, b_.getInt64(size_), lanes.count);
  }
}

void OperandAccess::copy(llvm::Value* to, llvm::Value* to_stride, llvm::Value* from,
                         llvm::Value* from_stride, llvm::Value* count) {
  llvm::Type* byte = b_.getInt8Ty();
  llvm::Type* element = type_->getElementType();
  llvm::BasicBlock* before = b_.GetInsertBlock();
  auto* head = llvm::BasicBlock::Create(b_.getContext(), "copy", before->getParent());
  auto* exit = llvm::BasicBlock::Create(b_.getContext(), "copied", before->getParent());
  b_.CreateBr(head);
  b_.SetInsertPoint(head);
  const auto phi = [&](llvm::Value* start) {
    llvm::PHINode* node = b_.CreatePHI(start->getType(), 2);
    node->addIncoming(start, before);
    return node;
  };
  llvm::PHINode *at = phi(from), *into = phi(to), *left = phi(count);
  llvm::Value* loaded = b_.CreateAlignedLoad(element, at, llvm::Align(size_));
  b_.CreateAlignedStore(loaded, into, llvm::Align(size_));
  at->addIncoming(b_.CreateGEP(byte, at, from_stride), head);
  into->addIncoming(b_.CreateGEP(byte, into, to_stride), head);
  llvm::Value* fewer = b_.CreateSub(left, b_.getInt64(1));
  left->addIncoming(fewer, head);
  b_.CreateCondBr(b_.CreateICmpNE(fewer, b_.getInt64(0)), head, exit);
  b_.SetInsertPoint(exit);
}

}  // namespace scramjet::codegen::cpu
