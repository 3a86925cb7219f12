#include "codegen/cpu/emitter.h"

#include <c10/util/Exception.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/Verifier.h>

#include "codegen/cpu/operand_access.h"
#include "codegen/cpu/schedule.h"
#include "codegen/cpu/vector_code.h"

namespace scramjet::codegen::cpu {
namespace {

class Emitter {
 public:
  Emitter(const CompileSpec& spec, Target target, llvm::LLVMContext& context)
      : spec_(spec),
        program_(spec.program),
        unit_(vector_unit(target)),
        schedule_(choose_schedule(spec, unit_)),
        module_(std::make_unique<llvm::Module>(spec.name, context)),
        b_(context),
        code_(b_, *module_, schedule_.lanes, unit_) {
    if (spec.fast_math) {
      llvm::FastMathFlags flags;
      flags.setAllowContract(true);
      flags.setAllowReassoc(true);
      b_.setFastMathFlags(flags);
    }
  }

  Emitted run() {
    start_function();
    // An empty row has no first element: not even a broadcast input may be read.
    llvm::Value* rows =
        b_.CreateSelect(b_.CreateICmpSGT(size0_, b_.getInt64(0)), size1_, b_.getInt64(0));
    const Loop outer = open_loop(b_.getInt64(0), rows, 1, "row");
    for (size_t k = 0; k < operands_.size(); ++k) {
      operands_[k].start_row(
          b_.CreateGEP(b_.getInt8Ty(), pointers_[k], b_.CreateMul(outer.index, outer_strides_[k])));
    }
    const int64_t step = int64_t{schedule_.lanes} * schedule_.unroll;
    llvm::Value* whole = b_.CreateSub(size0_, b_.CreateURem(size0_, b_.getInt64(step)));
    const Loop body = open_loop(b_.getInt64(0), whole, step, "body");
    emit_vectors(body.index, schedule_.unroll, nullptr);
    close_loop(body);
    // What is left, in single vectors that leave alone the lanes beyond the end: the same code, so
    // the same bits.
    const Loop rest = open_loop(whole, size0_, schedule_.lanes, "rest");
    const Lanes lanes = lanes_from(rest.index);
    emit_vectors(rest.index, 1, &lanes);
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

  size_t outputs() const { return program_.outputs.size(); }
  at::ScalarType memory(size_t operand) const {
    return operand < outputs() ? program_.outputs[operand].memory
                               : program_.inputs[operand - outputs()];
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
    const size_t count = spec_.access.size();
    for (size_t k = 0; k < count; ++k) {
      pointers_.push_back(load(ptr, function_->getArg(0), k));
      outer_strides_.push_back(load(i64, strides, count + k));
      operands_.emplace_back(b_, code_, memory(k), spec_.access[k], schedule_.lanes, unit_);
      operands_.back().start(load(i64, strides, k));
    }
  }

  Loop open_loop(llvm::Value* from, llvm::Value* to, int64_t step, const char* name) {
    auto& context = b_.getContext();
    Loop loop{};
    llvm::BasicBlock* before = b_.GetInsertBlock();
    loop.head = llvm::BasicBlock::Create(context, name, function_);
    llvm::BasicBlock* inside =
        llvm::BasicBlock::Create(context, std::string(name) + ".inside", function_);
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

  Lanes lanes_from(llvm::Value* index) {
    const int lanes = schedule_.lanes;
    auto* mask_type = llvm::FixedVectorType::get(b_.getInt1Ty(), lanes);
    llvm::Value* count = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin,
                                                  b_.CreateSub(size0_, index), b_.getInt64(lanes));
    if (unit_.bytes == 64) {  // AVX-512's mask registers hold one bit a lane
      llvm::Value* bits = b_.CreateLShr(b_.getInt64(-1), b_.CreateSub(b_.getInt64(64), count));
      return {count, b_.CreateBitCast(b_.CreateTrunc(bits, b_.getIntNTy(lanes)), mask_type)};
    }
    std::vector<llvm::Constant*> numbers;
    for (int k = 0; k < lanes; ++k) numbers.push_back(b_.getInt32(k));
    llvm::Value* end = b_.CreateVectorSplat(lanes, b_.CreateTrunc(count, b_.getInt32Ty()));
    return {count, b_.CreateICmpSLT(llvm::ConstantVector::get(numbers), end)};
  }

  // `count` vectors side by side, instruction by instruction: all loads come before all stores, so
  // that an output may be an input's memory. `lanes`: null for whole vectors.
  void emit_vectors(llvm::Value* index, int count, const Lanes* lanes) {
    std::vector<llvm::Value*> at;
    for (int u = 0; u < count; ++u)
      at.push_back(b_.CreateAdd(index, b_.getInt64(int64_t{u} * schedule_.lanes)));
    const size_t length = program_.instructions.size();
    std::vector<std::vector<llvm::Value*>> values(count, std::vector<llvm::Value*>(length));
    for (size_t k = 0; k < length; ++k) {
      const Instruction& in = program_.instructions[k];
      for (int u = 0; u < count; ++u) {
        auto& v = values[u];
        if (in.opcode == Opcode::kLoad) {
          OperandAccess& operand = operands_[outputs() + in.index];
          v[k] = lanes != nullptr ? operand.load(at[u], *lanes) : operand.load(at[u]);
        } else {
          const auto operand = [&](Value id) { return id < 0 ? nullptr : v[id]; };
          const at::ScalarType type = in.a >= 0 ? program_.instructions[in.a].type : in.type;
          v[k] = code_.translate(in, operand(in.a), operand(in.b), operand(in.c), type);
        }
      }
    }
    for (size_t k = 0; k < outputs(); ++k) {
      for (int u = 0; u < count; ++u) {
        llvm::Value* value = values[u][program_.outputs[k].value];
        if (lanes != nullptr) {
          operands_[k].store(at[u], value, *lanes);
        } else {
          operands_[k].store(at[u], value);
        }
      }
    }
  }

  const CompileSpec& spec_;
  const ScalarProgram& program_;
  const VectorUnit unit_;
  const Schedule schedule_;
  std::unique_ptr<llvm::Module> module_;
  llvm::IRBuilder<> b_;
  VectorCode code_;
  llvm::Function* function_ = nullptr;
  llvm::Value *size0_ = nullptr, *size1_ = nullptr;
  std::vector<llvm::Value*> pointers_, outer_strides_;  // by operand
  std::vector<OperandAccess> operands_;
};

}  // namespace

Emitted emit(const CompileSpec& spec, Target target, llvm::LLVMContext& context) {
  return Emitter(spec, target, context).run();
}

}  // namespace scramjet::codegen::cpu
