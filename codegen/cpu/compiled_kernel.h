#pragma once

// ScalarProgram → machine code for this CPU, by LLVM.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "codegen/scalar_program.h"

namespace scramjet::codegen::cpu {

// How an operand's inner dimension is walked; chosen per specialisation, baked into the machine
// code.
enum class Access : uint8_t {
  kContiguous,  // stride = element size
  kBroadcast,   // stride 0; inputs only
  kStrided,     // any byte stride, read at run time
};

struct CompileSpec {
  ScalarProgram program;
  std::vector<Access> access;  // one per operand: outputs first, then inputs
  bool fast_math = false;      // allows fused multiply-add and re-association
  std::string name;            // for dumps and profiles
};

// A loop nest over two dimensions, with the signature of at::TensorIterator's loops.
// pointers: one per operand; strides, in bytes: the inner ones of all operands, then the outer
// ones. An output may be the same memory as an input, element for element; they must not overlap
// otherwise.
using Loop2d = void (*)(char** pointers, const int64_t* strides, int64_t size0, int64_t size1);

class CompiledKernel {
 public:
  virtual ~CompiledKernel() = default;  // frees the code
  virtual Loop2d loop() const = 0;
};

// Instruction sets to compile for. kHost is the best this CPU has; the others exist for tests and
// dumps, and only where the CPU has them.
enum class Target : uint8_t { kHost, kAvx512, kAvx2, kSse };
bool host_supports(Target target);

// nullptr, with the reason, for a program that cannot be compiled (a math function that libtorch
// does not carry, an absurd length). Safe to call from several threads.
std::shared_ptr<const CompiledKernel> compile(const CompileSpec& spec, std::string* reason,
                                              Target target = Target::kHost);

// The text of both stages, for people.
std::string llvm_ir(const CompileSpec& spec, Target target = Target::kHost);
std::string assembly(const CompileSpec& spec, Target target = Target::kHost);

// "znver4, 512-bit vectors".
std::string target_description();

}  // namespace scramjet::codegen::cpu
