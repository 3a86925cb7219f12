#include "codegen/cpu/emitter.h"

#include <c10/util/Exception.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/Verifier.h>

#include <algorithm>

#include "codegen/cpu/vector_code.h"

namespace scramjet::codegen::cpu {
namespace {

int bytes_of(at::ScalarType type) { return type == at::kBool ? 1 : static_cast<int>(c10::elementSize(type)); }

// Lanes so that the widest type fills one register; narrower types fill a part of one.
int choose_lanes(const ScalarProgram& program, VectorUnit unit) {
  int widest = 1;
  for (const Instruction& in : program.instructions) widest = std::max(widest, bytes_of(in.type));
  return unit.bytes / widest;
}

// Values alive at once where the program is longest, constants included.
int most_live(const ScalarProgram& program) {
  const size_t count = program.instructions.size();
  std::vector<size_t> last(count, 0);
  for (size_t k = 0; k < count; ++k) {
    const Instruction& in = program.instructions[k];
    for (Value operand : {in.a, in.b, in.c}) {
      if (operand >= 0) last[operand] = k;
    }
  }
  for (const Store& store : program.outputs) last[store.value] = count;
  int live = 0, most = 0;
  std::vector<int> ends(count + 1, 0);
  for (size_t k = 0; k < count; ++k) {
    if (last[k] > k) {
      ++live;
      ++ends[last[k]];
    }
    live -= ends[k];
    most = std::max(most, live);
  }
  return std::max(most, 1);
}

// Vectors in flight: enough to hide latency, few enough that nothing spills (4 with 9 registers ran twice as fast
// as 8 with 17 on 16 registers). A call clobbers every vector register, so several in flight gain nothing there.
int choose_unroll(const ScalarProgram& program, VectorUnit unit) {
  for (const Instruction& in : program.instructions) {
    if (in.opcode == Opcode::kCall || in.opcode == Opcode::kRem) return 1;
  }
  constexpr int kMostInstructions = 2000;
  const int by_registers = (unit.registers - 2) / most_live(program);
  const int by_length = kMostInstructions / std::max<int>(1, static_cast<int>(program.instructions.size()));
  int unroll = 1;
  while (unroll < 8 && 2 * unroll <= by_registers && 2 * unroll <= by_length) unroll *= 2;
  return unroll;
}

class Emitter {
 public:
  Emitter(const CompileSpec& spec, Target target, llvm::LLVMContext& context)
      : spec_(spec),
        program_(spec.program),
        unit_(vector_unit(target)),
        lanes_(choose_lanes(program_, unit_)),
        unroll_(choose_unroll(program_, unit_)),
        module_(std::make_unique<llvm::Module>(spec.name, context)),
        b_(context),
        code_(b_, *module_, lanes_, unit_) {
    if (spec.fast_math) {
      llvm::FastMathFlags flags;
      flags.setAllowContract(true);
      flags.setAllowReassoc(true);
      b_.setFastMathFlags(flags);
    }
  }

  Emitted run() {
    start_function();
    const auto outer = open_loop(b_.getInt64(0), size1_, 1, "outer");
    bases_.resize(operands());
    for (size_t k = 0; k < operands(); ++k) {
      bases_[k] = b_.CreateGEP(b_.getInt8Ty(), pointers_[k], b_.CreateMul(outer.index, outer_strides_[k]));
    }
    load_broadcasts();
    const int64_t step = int64_t{lanes_} * unroll_;
    llvm::Value* whole = b_.CreateSub(size0_, b_.CreateAnd(size0_, b_.getInt64(step - 1)));
    const auto body = open_loop(b_.getInt64(0), whole, step, "body");
    emit_vectors(body.index, unroll_, nullptr);
    close_loop(body);
    // What is left, in single vectors with the lanes beyond the end masked off.
    const auto rest = open_loop(whole, size0_, lanes_, "rest");
    emit_vectors(rest.index, 1, mask_from(rest.index));
    close_loop(rest);
    close_loop(outer);
    b_.CreateRetVoid();
    TORCH_INTERNAL_ASSERT(!llvm::verifyFunction(*function_, &llvm::errs()));
    return {std::move(module_), code_.called()};
  }

 private:
  struct Loop {
    llvm::PHINode* index;
    llvm::BasicBlock *head, *exit;
    llvm::Value* next_step;
  };

  size_t operands() const { return spec_.access.size(); }
  size_t outputs() const { return program_.outputs.size(); }
  at::ScalarType memory(size_t operand) const {
    return operand < outputs() ? program_.outputs[operand].memory : program_.inputs[operand - outputs()];
  }

  void start_function() {
    llvm::Type* i64 = b_.getInt64Ty();
    llvm::Type* ptr = b_.getPtrTy();
    auto* type = llvm::FunctionType::get(b_.getVoidTy(), {ptr, ptr, i64, i64}, false);
    function_ = llvm::Function::Create(type, llvm::Function::ExternalLinkage, kEntry, *module_);
    // Without these LLVM splits 512-bit vectors on CPUs for which it prefers 256 bits.
    function_->addFnAttr("prefer-vector-width", std::to_string(8 * unit_.bytes));
    function_->addFnAttr("min-legal-vector-width", std::to_string(8 * unit_.bytes));
    function_->addFnAttr(llvm::Attribute::NoUnwind);
    b_.SetInsertPoint(llvm::BasicBlock::Create(b_.getContext(), "entry", function_));
    llvm::Value* strides = function_->getArg(1);
    size0_ = function_->getArg(2);
    size1_ = function_->getArg(3);
    const auto load = [&](llvm::Type* of, llvm::Value* base, size_t index) {
      return b_.CreateLoad(of, b_.CreateConstGEP1_64(of, base, index));
    };
    for (size_t k = 0; k < operands(); ++k) {
      pointers_.push_back(load(ptr, function_->getArg(0), k));
      inner_strides_.push_back(load(i64, strides, k));
      outer_strides_.push_back(load(i64, strides, operands() + k));
    }
  }

  Loop open_loop(llvm::Value* from, llvm::Value* to, int64_t step, const char* name) {
    auto& context = b_.getContext();
    Loop loop{};
    llvm::BasicBlock* before = b_.GetInsertBlock();
    loop.head = llvm::BasicBlock::Create(context, name, function_);
    llvm::BasicBlock* inside = llvm::BasicBlock::Create(context, std::string(name) + ".inside", function_);
    loop.exit = llvm::BasicBlock::Create(context, std::string(name) + ".exit", function_);
    b_.CreateBr(loop.head);
    b_.SetInsertPoint(loop.head);
    loop.index = b_.CreatePHI(b_.getInt64Ty(), 2);
    loop.index->addIncoming(from, before);
    b_.CreateCondBr(b_.CreateICmpSLT(loop.index, to), inside, loop.exit);
    b_.SetInsertPoint(inside);
    loop.next_step = b_.getInt64(step);
    return loop;
  }

  void close_loop(const Loop& loop) {
    loop.index->addIncoming(b_.CreateAdd(loop.index, loop.next_step), b_.GetInsertBlock());
    b_.CreateBr(loop.head);
    b_.SetInsertPoint(loop.exit);
  }

  // Lanes whose element lies before size0.
  llvm::Value* mask_from(llvm::Value* index) {
    llvm::Value* left = b_.CreateVectorSplat(lanes_, b_.CreateSub(size0_, index));
    return b_.CreateICmpSLT(lane_numbers(), left);
  }

  llvm::Value* lane_numbers() {
    std::vector<llvm::Constant*> numbers;
    for (int k = 0; k < lanes_; ++k) numbers.push_back(b_.getInt64(k));
    return llvm::ConstantVector::get(numbers);
  }

  // Inputs that stay the same along the inner dimension.
  void load_broadcasts() {
    broadcast_.assign(operands(), nullptr);
    for (size_t k = outputs(); k < operands(); ++k) {
      if (spec_.access[k] != Access::kBroadcast) continue;
      auto* type = llvm::cast<llvm::FixedVectorType>(code_.memory_type(memory(k)));
      llvm::Value* element = b_.CreateAlignedLoad(type->getElementType(), bases_[k], alignment(k));
      broadcast_[k] = code_.from_memory(b_.CreateVectorSplat(lanes_, element), memory(k));
    }
  }

  // Tensors are aligned to their element, no more is known.
  llvm::MaybeAlign alignment(size_t operand) const { return llvm::Align(c10::elementSize(memory(operand))); }

  llvm::Value* address(size_t operand, llvm::Value* index) {
    const bool contiguous = spec_.access[operand] == Access::kContiguous;
    llvm::Value* stride = contiguous ? b_.getInt64(c10::elementSize(memory(operand))) : inner_strides_[operand];
    return b_.CreateGEP(b_.getInt8Ty(), bases_[operand], b_.CreateMul(index, stride));
  }

  llvm::Value* addresses(size_t operand, llvm::Value* index) {
    llvm::Value* strides = b_.CreateVectorSplat(lanes_, inner_strides_[operand]);
    return b_.CreateGEP(b_.getInt8Ty(), address(operand, index), b_.CreateMul(lane_numbers(), strides));
  }

  llvm::Value* all_lanes() { return llvm::ConstantInt::getTrue(llvm::FixedVectorType::get(b_.getInt1Ty(), lanes_)); }

  llvm::Value* load(size_t operand, llvm::Value* index, llvm::Value* mask) {
    if (broadcast_[operand] != nullptr) return broadcast_[operand];
    llvm::Type* type = code_.memory_type(memory(operand));
    const auto align = *alignment(operand);
    llvm::Value* loaded = nullptr;
    if (spec_.access[operand] == Access::kStrided) {
      loaded = b_.CreateMaskedGather(type, addresses(operand, index), align, mask != nullptr ? mask : all_lanes(), llvm::Constant::getNullValue(type));
    } else if (mask != nullptr) {
      loaded = b_.CreateMaskedLoad(type, address(operand, index), align, mask, llvm::Constant::getNullValue(type));
    } else {
      loaded = b_.CreateAlignedLoad(type, address(operand, index), align);
    }
    return code_.from_memory(loaded, memory(operand));
  }

  void store(size_t operand, llvm::Value* index, llvm::Value* value, llvm::Value* mask) {
    value = code_.to_memory(value, memory(operand));
    const auto align = *alignment(operand);
    if (spec_.access[operand] == Access::kStrided) {
      b_.CreateMaskedScatter(value, addresses(operand, index), align, mask != nullptr ? mask : all_lanes());
    } else if (mask != nullptr) {
      b_.CreateMaskedStore(value, address(operand, index), align, mask);
    } else {
      b_.CreateAlignedStore(value, address(operand, index), align);
    }
  }

  // `count` vectors side by side, instruction by instruction: all loads come before all stores, so that an output
  // may be an input's memory.
  void emit_vectors(llvm::Value* index, int count, llvm::Value* mask) {
    std::vector<llvm::Value*> at;
    for (int u = 0; u < count; ++u) at.push_back(u == 0 ? index : b_.CreateAdd(index, b_.getInt64(int64_t{u} * lanes_)));
    const size_t length = program_.instructions.size();
    std::vector<std::vector<llvm::Value*>> values(count, std::vector<llvm::Value*>(length));
    for (size_t k = 0; k < length; ++k) {
      const Instruction& in = program_.instructions[k];
      for (int u = 0; u < count; ++u) {
        auto& v = values[u];
        const auto operand = [&](Value id) { return id < 0 ? nullptr : v[id]; };
        if (in.opcode == Opcode::kLoad) {
          v[k] = load(outputs() + in.index, at[u], mask);
        } else {
          const at::ScalarType type = in.a >= 0 ? program_.instructions[in.a].type : in.type;
          v[k] = code_.translate(in, operand(in.a), operand(in.b), operand(in.c), type);
        }
      }
    }
    for (size_t k = 0; k < outputs(); ++k) {
      for (int u = 0; u < count; ++u) store(k, at[u], values[u][program_.outputs[k].value], mask);
    }
  }

  const CompileSpec& spec_;
  const ScalarProgram& program_;
  const VectorUnit unit_;
  const int lanes_, unroll_;
  std::unique_ptr<llvm::Module> module_;
  llvm::IRBuilder<> b_;
  VectorCode code_;
  llvm::Function* function_ = nullptr;
  llvm::Value *size0_ = nullptr, *size1_ = nullptr;
  std::vector<llvm::Value*> pointers_, inner_strides_, outer_strides_;  // by operand
  std::vector<llvm::Value*> bases_, broadcast_;                         // of the current outer iteration
};

}  // namespace

Emitted emit(const CompileSpec& spec, Target target, llvm::LLVMContext& context) {
  return Emitter(spec, target, context).run();
}

}  // namespace scramjet::codegen::cpu
