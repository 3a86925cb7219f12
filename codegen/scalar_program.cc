#include "codegen/scalar_program.h"

#include <c10/util/Exception.h>

#include <bit>
#include <sstream>

namespace scramjet::codegen {
namespace {

constexpr const char* kOpcodeNames[] = {
    "load", "constant", "add",  "sub",    "mul",        "div",  "rem",      "neg",
    "abs",  "floor",    "ceil", "trunc",  "round_even", "sqrt", "copysign", "and",
    "or",   "xor",      "not",  "shl",    "shr",        "eq",   "ne",       "lt",
    "le",   "gt",       "ge",   "select", "fma",        "cast", "round",    "call"};
constexpr const char* kMathNames[] = {"exp",   "exp2", "expm1", "log",  "log2",  "log10",
                                      "log1p", "sin",  "cos",   "tan",  "asin",  "acos",
                                      "atan",  "sinh", "cosh",  "tanh", "asinh", "acosh",
                                      "atanh", "erf",  "erfc",  "pow",  "atan2", "hypot"};

bool is_comparison(Opcode opcode) { return opcode >= Opcode::kEq && opcode <= Opcode::kGe; }

}  // namespace

at::ScalarType register_type(at::ScalarType memory) {
  switch (memory) {
    case at::kHalf:
    case at::kBFloat16:
      return at::kFloat;
    case at::kFloat:
    case at::kDouble:
    case at::kChar:
    case at::kByte:
    case at::kShort:
    case at::kInt:
    case at::kLong:
    case at::kBool:
      return memory;
    default:
      return at::ScalarType::Undefined;
  }
}

std::string ScalarProgram::to_string() const {
  std::ostringstream out;
  for (size_t k = 0; k < instructions.size(); ++k) {
    const Instruction& in = instructions[k];
    out << '%' << k << " : " << c10::toString(in.type) << " = "
        << kOpcodeNames[static_cast<int>(in.opcode)];
    if (in.opcode == Opcode::kCall) out << ' ' << kMathNames[static_cast<int>(in.math)];
    if (in.opcode == Opcode::kLoad)
      out << " input " << in.index << " as " << c10::toString(in.memory);
    if (in.opcode == Opcode::kRound) out << " to " << c10::toString(in.memory);
    if (in.opcode == Opcode::kConstant) {
      out.precision(17);
      if (at::isFloatingType(in.type)) {
        out << ' ' << in.f;
      } else {
        out << ' ' << in.i;
      }
    }
    for (Value operand : {in.a, in.b, in.c}) {
      if (operand >= 0) out << " %" << operand;
    }
    out << '\n';
  }
  for (const Store& store : outputs) {
    out << "store %" << store.value << " as " << c10::toString(store.memory) << '\n';
  }
  return out.str();
}

ScalarBuilder::ScalarBuilder(std::vector<at::ScalarType> inputs) {
  program_.inputs = std::move(inputs);
}

Value ScalarBuilder::append(const Instruction& in) {
  const Key key{static_cast<int>(in.opcode),
                static_cast<int>(in.type),
                in.a,
                in.b,
                in.c,
                static_cast<int>(in.memory),
                in.index,
                static_cast<int>(in.math),
                std::bit_cast<uint64_t>(in.f),
                in.i};
  auto [at, inserted] = known_.try_emplace(key, static_cast<Value>(program_.instructions.size()));
  if (inserted) program_.instructions.push_back(in);
  return at->second;
}

Value ScalarBuilder::load(int32_t index) {
  const at::ScalarType memory = program_.inputs.at(index);
  return append(
      {.opcode = Opcode::kLoad, .type = register_type(memory), .memory = memory, .index = index});
}

Value ScalarBuilder::constant(double value, at::ScalarType type) {
  if (!at::isFloatingType(type)) return integer(static_cast<int64_t>(value), type);
  if (type == at::kFloat) value = static_cast<float>(value);
  return append({.opcode = Opcode::kConstant, .type = type, .f = value});
}

Value ScalarBuilder::integer(int64_t value, at::ScalarType type) {
  if (at::isFloatingType(type)) return constant(static_cast<double>(value), type);
  switch (type) {  // wrap, as a C++ cast does
    case at::kBool:
      value = value != 0;
      break;
    case at::kChar:
      value = static_cast<int8_t>(value);
      break;
    case at::kByte:
      value = static_cast<uint8_t>(value);
      break;
    case at::kShort:
      value = static_cast<int16_t>(value);
      break;
    case at::kInt:
      value = static_cast<int32_t>(value);
      break;
    default:
      break;
  }
  return append({.opcode = Opcode::kConstant, .type = type, .i = value});
}

Value ScalarBuilder::unary(Opcode opcode, Value a) {
  return append({.opcode = opcode, .type = type(a), .a = a});
}

Value ScalarBuilder::binary(Opcode opcode, Value a, Value b) {
  TORCH_INTERNAL_ASSERT(type(a) == type(b), kOpcodeNames[static_cast<int>(opcode)], ": ", type(a),
                        " and ", type(b));
  return append(
      {.opcode = opcode, .type = is_comparison(opcode) ? at::kBool : type(a), .a = a, .b = b});
}

Value ScalarBuilder::select(Value condition, Value a, Value b) {
  TORCH_INTERNAL_ASSERT(type(condition) == at::kBool && type(a) == type(b));
  return append({.opcode = Opcode::kSelect, .type = type(a), .a = condition, .b = a, .c = b});
}

Value ScalarBuilder::fma(Value a, Value b, Value c) {
  TORCH_INTERNAL_ASSERT(at::isFloatingType(type(a)) && type(a) == type(b) && type(a) == type(c));
  return append({.opcode = Opcode::kFma, .type = type(a), .a = a, .b = b, .c = c});
}

Value ScalarBuilder::cast(Value a, at::ScalarType to) {
  if (type(a) == to) return a;
  const Instruction& from = program_.instructions[a];
  if (from.opcode == Opcode::kConstant && at::isFloatingType(to)) {
    return at::isFloatingType(from.type) ? constant(from.f, to) : integer(from.i, to);
  }
  return append({.opcode = Opcode::kCast, .type = to, .a = a});
}

Value ScalarBuilder::round(Value a, at::ScalarType memory) {
  TORCH_INTERNAL_ASSERT(type(a) == at::kFloat);
  return append({.opcode = Opcode::kRound, .type = at::kFloat, .a = a, .memory = memory});
}

Value ScalarBuilder::call(Math math, Value a, Value b) {
  TORCH_INTERNAL_ASSERT(at::isFloatingType(type(a)) && (b < 0 || type(a) == type(b)));
  return append({.opcode = Opcode::kCall, .type = type(a), .a = a, .b = b, .math = math});
}

void ScalarBuilder::store(Value value, at::ScalarType memory) {
  TORCH_INTERNAL_ASSERT(register_type(memory) == type(value), "store of ", type(value), " as ",
                        memory);
  program_.outputs.push_back({value, memory});
}

}  // namespace scramjet::codegen
