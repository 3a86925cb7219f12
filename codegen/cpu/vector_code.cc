#include "codegen/cpu/vector_code.h"

#include <c10/util/Exception.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/Module.h>

#include <numeric>

#include "codegen/cpu/math_functions.h"

namespace scramjet::codegen::cpu {
namespace {

using llvm::FixedVectorType;

bool is_signed(at::ScalarType type) { return type != at::kByte && type != at::kBool; }

}  // namespace

llvm::Type* VectorCode::element_type(at::ScalarType type) const {
  switch (type) {
    case at::kFloat:
      return b_.getFloatTy();
    case at::kDouble:
      return b_.getDoubleTy();
    case at::kBool:
      return b_.getInt1Ty();
    case at::kByte:
    case at::kChar:
      return b_.getInt8Ty();
    case at::kShort:
      return b_.getInt16Ty();
    case at::kInt:
      return b_.getInt32Ty();
    case at::kLong:
      return b_.getInt64Ty();
    default:
      TORCH_INTERNAL_ASSERT(false, "no register holds ", type);
  }
}

llvm::Type* VectorCode::register_type(at::ScalarType type) const {
  return FixedVectorType::get(element_type(type), lanes_);
}

llvm::Type* VectorCode::memory_type(at::ScalarType type) const {
  const bool two_bytes = type == at::kHalf || type == at::kBFloat16;
  llvm::Type* element = two_bytes           ? b_.getInt16Ty()
                        : type == at::kBool ? b_.getInt8Ty()
                                            : element_type(type);
  return FixedVectorType::get(element, lanes_);
}

llvm::Value* VectorCode::splat(uint64_t value, llvm::Type* vector) {
  return llvm::ConstantInt::get(vector, value);
}

llvm::Value* VectorCode::from_memory(llvm::Value* loaded, at::ScalarType memory) {
  llvm::Type* floats = register_type(at::kFloat);
  switch (memory) {
    case at::kBool:
      return b_.CreateICmpNE(loaded, splat(0, loaded->getType()));
    case at::kHalf:
      return b_.CreateFPExt(b_.CreateBitCast(loaded, FixedVectorType::get(b_.getHalfTy(), lanes_)),
                            floats);
    case at::kBFloat16: {
      llvm::Type* ints = register_type(at::kInt);
      return b_.CreateBitCast(b_.CreateShl(b_.CreateZExt(loaded, ints), splat(16, ints)), floats);
    }
    default:
      return loaded;
  }
}

llvm::Value* VectorCode::to_memory(llvm::Value* value, at::ScalarType memory) {
  switch (memory) {
    case at::kBool:
      return b_.CreateZExt(value, memory_type(memory));
    case at::kHalf:
      return b_.CreateBitCast(b_.CreateFPTrunc(value, FixedVectorType::get(b_.getHalfTy(), lanes_)),
                              memory_type(memory));
    case at::kBFloat16:
      return to_bfloat16(value);
    default:
      return value;
  }
}

// To nearest, ties to even; NaN becomes 0x7fc0 (c10::detail::round_to_nearest_even).
llvm::Value* VectorCode::to_bfloat16(llvm::Value* value) {
  llvm::Type* ints = register_type(at::kInt);
  llvm::Value* bits = b_.CreateBitCast(value, ints);
  llvm::Value* odd = b_.CreateAnd(b_.CreateLShr(bits, splat(16, ints)), splat(1, ints));
  llvm::Value* rounded =
      b_.CreateLShr(b_.CreateAdd(bits, b_.CreateAdd(odd, splat(0x7fff, ints))), splat(16, ints));
  llvm::Value* nan = b_.CreateFCmpUNO(value, value);
  return b_.CreateTrunc(b_.CreateSelect(nan, splat(0x7fc0, ints), rounded),
                        memory_type(at::kBFloat16));
}

llvm::Value* VectorCode::constant(const Instruction& in) {
  llvm::Type* type = register_type(in.type);
  return at::isFloatingType(in.type)
             ? llvm::ConstantFP::get(type, in.f)
             : llvm::ConstantInt::get(type, static_cast<uint64_t>(in.i), is_signed(in.type));
}

llvm::Value* VectorCode::arithmetic(Opcode opcode, llvm::Value* a, llvm::Value* b,
                                    at::ScalarType type) {
  const bool floating = at::isFloatingType(type);
  switch (opcode) {
    case Opcode::kAdd:
      return floating ? b_.CreateFAdd(a, b) : b_.CreateAdd(a, b);
    case Opcode::kSub:
      return floating ? b_.CreateFSub(a, b) : b_.CreateSub(a, b);
    case Opcode::kMul:
      return floating ? b_.CreateFMul(a, b) : b_.CreateMul(a, b);
    case Opcode::kDiv:
      return b_.CreateFDiv(a, b);
    case Opcode::kRem:
      return call(remainder_symbol(type == at::kDouble, call_width(type)), a, b, type);
    case Opcode::kCopySign:
      return b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, a, b);
    case Opcode::kAnd:
      return b_.CreateAnd(a, b);
    case Opcode::kOr:
      return b_.CreateOr(a, b);
    default:
      return b_.CreateXor(a, b);
  }
}

llvm::Value* VectorCode::unary(Opcode opcode, llvm::Value* a, at::ScalarType type) {
  const auto intrinsic = [&](llvm::Intrinsic::ID id) { return b_.CreateUnaryIntrinsic(id, a); };
  switch (opcode) {
    case Opcode::kNeg:
      return at::isFloatingType(type) ? b_.CreateFNeg(a) : b_.CreateNeg(a);
    case Opcode::kAbs:
      if (at::isFloatingType(type)) return intrinsic(llvm::Intrinsic::fabs);
      if (!is_signed(type)) return a;
      return b_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, a,
                                      b_.getFalse());  // wraps at the lowest value
    case Opcode::kFloor:
      return intrinsic(llvm::Intrinsic::floor);
    case Opcode::kCeil:
      return intrinsic(llvm::Intrinsic::ceil);
    case Opcode::kTrunc:
      return intrinsic(llvm::Intrinsic::trunc);
    case Opcode::kRoundEven:
      return intrinsic(llvm::Intrinsic::roundeven);
    case Opcode::kSqrt:
      return intrinsic(llvm::Intrinsic::sqrt);
    default:
      return b_.CreateNot(a);
  }
}

llvm::Value* VectorCode::compare(Opcode opcode, llvm::Value* a, llvm::Value* b,
                                 at::ScalarType type) {
  using P = llvm::CmpInst;
  struct Predicates {
    P::Predicate floating, integer, unsigned_integer;
  };
  static constexpr Predicates kPredicates[] = {
      {P::FCMP_OEQ, P::ICMP_EQ, P::ICMP_EQ},   {P::FCMP_UNE, P::ICMP_NE, P::ICMP_NE},
      {P::FCMP_OLT, P::ICMP_SLT, P::ICMP_ULT}, {P::FCMP_OLE, P::ICMP_SLE, P::ICMP_ULE},
      {P::FCMP_OGT, P::ICMP_SGT, P::ICMP_UGT}, {P::FCMP_OGE, P::ICMP_SGE, P::ICMP_UGE}};
  const Predicates& row = kPredicates[static_cast<int>(opcode) - static_cast<int>(Opcode::kEq)];
  if (at::isFloatingType(type)) return b_.CreateFCmp(row.floating, a, b);
  return b_.CreateICmp(is_signed(type) ? row.integer : row.unsigned_integer, a, b);
}

// A count outside [0, bits): 0 to the left; to the right, sign fill (uint8: 0). LLVM's own shifts
// are poison there.
llvm::Value* VectorCode::shift(Opcode opcode, llvm::Value* a, llvm::Value* b, at::ScalarType type) {
  const uint64_t bits = a->getType()->getScalarSizeInBits();
  llvm::Value* valid = b_.CreateICmpULT(b, splat(bits, b->getType()));
  llvm::Value* zero = splat(0, a->getType());
  if (opcode == Opcode::kShl)
    return b_.CreateSelect(valid, b_.CreateShl(a, b_.CreateSelect(valid, b, zero)), zero);
  if (is_signed(type))
    return b_.CreateAShr(a, b_.CreateSelect(valid, b, splat(bits - 1, b->getType())));
  return b_.CreateSelect(valid, b_.CreateLShr(a, b_.CreateSelect(valid, b, zero)), zero);
}

// As x86's cvtt instructions and C++ casts compiled to them have it: through int64 for uint8
// (c10::convert says so) and int64, else through int32. What is out of range is frozen, so that it
// stays one value.
llvm::Value* VectorCode::float_to_integer(llvm::Value* a, at::ScalarType to) {
  const bool wide = to == at::kByte || to == at::kLong;
  llvm::Value* integer =
      b_.CreateFreeze(b_.CreateFPToSI(a, register_type(wide ? at::kLong : at::kInt)));
  return b_.CreateTrunc(integer, register_type(to));
}

llvm::Value* VectorCode::cast(llvm::Value* a, at::ScalarType from, at::ScalarType to) {
  llvm::Type* type = register_type(to);
  const bool from_float = at::isFloatingType(from), to_float = at::isFloatingType(to);
  if (to == at::kBool) {
    llvm::Value* zero = llvm::Constant::getNullValue(a->getType());
    return from_float ? b_.CreateFCmpUNE(a, zero) : b_.CreateICmpNE(a, zero);
  }
  if (from_float && to_float) return b_.CreateFPCast(a, type);
  if (from_float) return float_to_integer(a, to);
  if (to_float) return is_signed(from) ? b_.CreateSIToFP(a, type) : b_.CreateUIToFP(a, type);
  return b_.CreateIntCast(a, type, is_signed(from));
}

llvm::Value* VectorCode::math(Math math, llvm::Value* a, llvm::Value* b, at::ScalarType type) {
  if (type == at::kFloat && needs_double(math)) {
    llvm::Value* wide = call(math_symbol(math, true, call_width(at::kDouble)),
                             b_.CreateFPExt(a, register_type(at::kDouble)), nullptr, at::kDouble);
    return b_.CreateFPTrunc(wide, register_type(at::kFloat));
  }
  if (type == at::kDouble && overflows_early(math))
    return call_scalars(math_symbol(math, true, 1), a, b, type);
  return call(math_symbol(math, type == at::kDouble, call_width(type)), a, b, type);
}

// libtorch carries the functions for AVX2 and AVX-512 registers, the C library for single values.
int VectorCode::call_width(at::ScalarType type) const {
  return unit_.bytes < 32 ? 1 : unit_.bytes / static_cast<int>(c10::elementSize(type));
}

llvm::Value* VectorCode::call_scalars(const std::string& symbol, llvm::Value* a, llvm::Value* b,
                                      at::ScalarType type) {
  called_.insert(symbol);
  llvm::Type* element = element_type(type);
  std::vector<llvm::Type*> parameters(b != nullptr ? 2 : 1, element);
  const auto function =
      module_.getOrInsertFunction(symbol, llvm::FunctionType::get(element, parameters, false));
  llvm::Value* result = llvm::PoisonValue::get(a->getType());
  for (int lane = 0; lane < lanes_; ++lane) {
    std::vector<llvm::Value*> arguments{b_.CreateExtractElement(a, lane)};
    if (b != nullptr) arguments.push_back(b_.CreateExtractElement(b, lane));
    result = b_.CreateInsertElement(result, b_.CreateCall(function, arguments), lane);
  }
  return result;
}

// The functions take a full vector register: split or join to its width.
llvm::Value* VectorCode::call(const std::string& symbol, llvm::Value* a, llvm::Value* b,
                              at::ScalarType type) {
  const int width = call_width(type);
  if (width == 1) return call_scalars(symbol, a, b, type);
  called_.insert(symbol);
  llvm::Type* vector = FixedVectorType::get(element_type(type), width);
  std::vector<llvm::Type*> parameters(b != nullptr ? 2 : 1, vector);
  const auto function =
      module_.getOrInsertFunction(symbol, llvm::FunctionType::get(vector, parameters, false));

  std::vector<int> indices(width);
  const auto part = [&](llvm::Value* value, int start) {
    for (int k = 0; k < width; ++k)
      indices[k] = start + k < lanes_ ? start + k : start;  // short vectors: repeat a lane
    return b_.CreateShuffleVector(value, indices);
  };
  std::vector<llvm::Value*> parts;
  for (int start = 0; start < lanes_; start += width) {
    std::vector<llvm::Value*> arguments{part(a, start)};
    if (b != nullptr) arguments.push_back(part(b, start));
    parts.push_back(b_.CreateCall(function, arguments));
  }
  while (parts.size() > 1) {  // lanes are powers of two, so parts pair up
    std::vector<llvm::Value*> joined;
    for (size_t k = 0; k < parts.size(); k += 2) {
      const auto size = llvm::cast<FixedVectorType>(parts[k]->getType())->getNumElements();
      indices.resize(2 * size);
      std::iota(indices.begin(), indices.end(), 0);
      joined.push_back(b_.CreateShuffleVector(parts[k], parts[k + 1], indices));
    }
    parts = std::move(joined);
  }
  if (lanes_ >= width) return parts[0];
  indices.resize(lanes_);
  std::iota(indices.begin(), indices.end(), 0);
  return b_.CreateShuffleVector(parts[0], indices);
}

llvm::Value* VectorCode::translate(const Instruction& in, llvm::Value* a, llvm::Value* b,
                                   llvm::Value* c, at::ScalarType operand_type) {
  switch (in.opcode) {
    case Opcode::kConstant:
      return constant(in);
    case Opcode::kAdd:
    case Opcode::kSub:
    case Opcode::kMul:
    case Opcode::kDiv:
    case Opcode::kRem:
    case Opcode::kCopySign:
    case Opcode::kAnd:
    case Opcode::kOr:
    case Opcode::kXor:
      return arithmetic(in.opcode, a, b, in.type);
    case Opcode::kShl:
    case Opcode::kShr:
      return shift(in.opcode, a, b, in.type);
    case Opcode::kEq:
    case Opcode::kNe:
    case Opcode::kLt:
    case Opcode::kLe:
    case Opcode::kGt:
    case Opcode::kGe:
      return compare(in.opcode, a, b, operand_type);
    case Opcode::kFma:
      return b_.CreateIntrinsic(llvm::Intrinsic::fma, {a->getType()}, {a, b, c});
    case Opcode::kSelect:
      return b_.CreateSelect(a, b, c);
    case Opcode::kCast:
      return cast(a, operand_type, in.type);
    case Opcode::kRound:
      return from_memory(to_memory(a, in.memory), in.memory);
    case Opcode::kCall:
      return math(in.math, a, b, in.type);
    case Opcode::kLoad:
      TORCH_INTERNAL_ASSERT(false, "loads are the emitter's");
    default:
      return unary(in.opcode, a, in.type);
  }
}

}  // namespace scramjet::codegen::cpu
