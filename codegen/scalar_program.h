#pragma once

// ScalarProgram: what one element of a fused kernel computes, as typed, straight-line SSA code.
//
// The op table (pointwise_ops.inc) lowers each ATen op to these few primitives, once; a back end
// translates the primitives and knows no ATen op. Values are numbered in the order they are built.
//
//   ScalarBuilder b({at::kHalf});
//   Value x = b.load(0);                           // half in memory, float in the register
//   b.store(b.mul(x, b.constant(2.0, at::kFloat)), at::kHalf);
//   ScalarProgram program = b.finish();
//
// Register types are float, double, int8/16/32/64, uint8 and bool. Half and bfloat16 exist in
// memory only: load() widens them to float, store() rounds float to them (to nearest, ties to even;
// NaN stays NaN).

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace scramjet::codegen {

using Value = int32_t;

enum class Opcode : uint8_t {
  kLoad,      // operand `index`, memory dtype `memory`
  kConstant,  // `f` for float and double, `i` for the rest
  // Both operands and the result have type `type`. Integers wrap. kDiv and kRem are float only.
  kAdd,
  kSub,
  kMul,
  kDiv,
  kRem,  // C fmod: the sign of the dividend
  // kNeg flips the sign bit of floats, kAbs clears it; on integers both wrap at the lowest value.
  kNeg,
  kAbs,
  kFloor,
  kCeil,
  kTrunc,
  kRoundEven,
  kSqrt,
  kCopySign,  // |a| with the sign of b
  // Integers and bool.
  kAnd,
  kOr,
  kXor,
  kNot,  // bool: logical; integers: bitwise
  // Integers. A shift count outside [0, bits) gives 0 for kShl, and sign fill (uint8: 0) for kShr,
  // as in ATen.
  kShl,
  kShr,
  // Operands of one type, result bool. Ordered: false on NaN, but kNe is true on NaN.
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kSelect,  // a: bool, b and c of `type`
  kFma,     // a * b + c rounded once, float or double: where ATen's own kernels do so
  // Between any two register types as a C++ static_cast, except: to bool is != 0 (NaN is true), and
  // float to integer goes as ATen's vector code has it: out of range is unspecified but never
  // traps.
  kCast,
  kRound,  // float through half or bfloat16 (`memory`) and back: rounds a float register
  kCall,   // math function `math`, of one or two operands, float or double
};

// Functions with 1 ulp versions in Sleef. kPow, kAtan2 and kHypot take two operands.
enum class Math : uint8_t {
  kExp,
  kExp2,
  kExpm1,
  kLog,
  kLog2,
  kLog10,
  kLog1p,
  kSin,
  kCos,
  kTan,
  kAsin,
  kAcos,
  kAtan,
  kSinh,
  kCosh,
  kTanh,
  kAsinh,
  kAcosh,
  kAtanh,
  kErf,
  kErfc,
  kPow,
  kAtan2,
  kHypot,
};

struct Instruction {
  Opcode opcode;
  at::ScalarType type;                            // of the result, a register type
  Value a = -1, b = -1, c = -1;                   // operands
  at::ScalarType memory = at::ScalarType::Float;  // kLoad, kRound
  int32_t index = 0;                              // kLoad
  Math math = Math::kExp;                         // kCall
  double f = 0;                                   // kConstant
  int64_t i = 0;                                  // kConstant
};

struct Store {
  Value value;
  at::ScalarType memory;  // the value's register type, or half / bfloat16 for a float
};

struct ScalarProgram {
  std::vector<Instruction> instructions;
  std::vector<at::ScalarType> inputs;  // memory dtype of each input operand
  std::vector<Store> outputs;

  // One instruction a line, for dumps and tests.
  std::string to_string() const;
};

// The register type that holds a memory dtype, or Undefined for a dtype that is not supported.
at::ScalarType register_type(at::ScalarType memory);

// Builds a ScalarProgram. Identical instructions are built once; constants fold only where exact.
// Operand types are checked: a mismatch is a bug of the caller's (TORCH_INTERNAL_ASSERT).
class ScalarBuilder {
 public:
  explicit ScalarBuilder(std::vector<at::ScalarType> inputs);

  Value load(int32_t index);
  Value constant(double value, at::ScalarType type);
  Value integer(int64_t value, at::ScalarType type);

  Value unary(Opcode opcode, Value a);
  Value binary(Opcode opcode, Value a, Value b);
  Value select(Value condition, Value a, Value b);
  Value fma(Value a, Value b, Value c);
  Value cast(Value a, at::ScalarType type);
  Value round(Value a, at::ScalarType memory);
  Value call(Math math, Value a, Value b = -1);

  void store(Value value, at::ScalarType memory);
  at::ScalarType type(Value value) const { return program_.instructions[value].type; }
  ScalarProgram finish() { return std::move(program_); }

 private:
  using Key = std::tuple<int, int, Value, Value, Value, int, int32_t, int, uint64_t, int64_t>;
  Value append(const Instruction& instruction);

  ScalarProgram program_;
  std::map<Key, Value> known_;
};

}  // namespace scramjet::codegen
