#pragma once

// The table of pointwise ops: one row an ATen overload, written once in pointwise_ops.inc.
//
// A row gives the op's name in the dispatcher (which knows its schema), how its dtypes come about,
// for which dtypes it can be compiled, and its arithmetic in the primitives of ScalarProgram. The
// fuser's support check, every code generator, the op-by-op path and the tests read this table;
// there is no second list of ops.

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/operator_name.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codegen/kernel.h"
#include "codegen/scalar_program.h"

namespace scramjet::codegen {

// How the common dtype (in which the op computes) and the result dtype follow from the arguments.
enum class DtypeRule : uint8_t {
  kPromote,         // common = result_type(all tensors and numbers); result = common
  kPromoteToFloat,  // the same, integers and bool becoming the default float dtype
  kCompare,         // common as kPromote; result bool
  kSelf,            // common = result = the dtype that all tensors share
  kMasked,          // common = result = the first tensor's dtype; argument 1 is a bool mask
  kSelfToBool,      // common = the first tensor's dtype; result bool
  kBranches,        // argument 0 is a bool condition; common = result_type(the others) = result
  kDtypeArgument,   // result = the dtype given as argument 1; common = the first tensor's dtype
  kAutocast,        // the same with argument 2, for the tensors that autocast of device 1 casts
};

// What strides eager gives the result where its operands are not contiguous.
enum class StrideRule : uint8_t {
  kIterator,    // TensorIterator's: those of the operands
  kReversed,    // the same, the op taking its two tensors the other way round
  kContiguous,  // row-major, whatever the operands are
  kLike,        // at::empty_like's of the first tensor
};

// Classes of common dtype a row can be compiled for; others are evaluated op by op.
enum DtypeClass : uint8_t { kFloating = 1, kInteger = 2, kBoolean = 4, kAnyDtype = 7, kNumber = 3 };

// What a row's lowering sees: its arguments, already converted to the common dtype's register type.
class Lowering {
 public:
  // operands: by argument, the tensors and numbers converted to the common dtype; raw: the tensors
  // as they are.
  Lowering(ScalarBuilder& builder, const Node& node, const std::vector<Value>& operands,
           const std::vector<Value>& raw, at::ScalarType common, at::ScalarType result)
      : b(builder), node_(node), operands_(operands), raw_(raw), common_(common), result_(result) {}

  ScalarBuilder& b;

  // Argument k (tensor or number) in the common type's register.
  Value x(size_t k) const { return operands_[k]; }
  Value condition(size_t k) const { return raw_[k]; }  // a bool tensor, not converted
  Value constant(double value) const { return b.constant(value, type()); }

  bool is_none(size_t k) const { return !argument(k).is_value() && argument(k).constant.isNone(); }
  double number(size_t k) const { return argument(k).constant.toScalar().to<double>(); }
  bool boolean(size_t k) const { return argument(k).constant.toBool(); }
  const std::string& string(size_t k) const { return argument(k).constant.toStringRef(); }

  at::ScalarType type() const { return register_type(common_); }
  at::ScalarType common() const { return common_; }
  at::ScalarType result() const { return result_; }
  // Does a bool tensor take part?
  bool any_bool() const;
  // Is argument k a tensor of floating dtype, before its conversion?
  bool is_floating_tensor(size_t k) const { return at::isFloatingType(b.type(raw_[k])); }
  bool is_floating() const { return at::isFloatingType(common_); }

  // Shorthands, so that rows read like their formulas.
  Value add(Value a, Value c) const { return b.binary(Opcode::kAdd, a, c); }
  Value sub(Value a, Value c) const { return b.binary(Opcode::kSub, a, c); }
  Value mul(Value a, Value c) const { return b.binary(Opcode::kMul, a, c); }
  Value div(Value a, Value c) const { return b.binary(Opcode::kDiv, a, c); }
  Value neg(Value a) const { return b.unary(Opcode::kNeg, a); }
  Value lt(Value a, Value c) const { return b.binary(Opcode::kLt, a, c); }
  Value gt(Value a, Value c) const { return b.binary(Opcode::kGt, a, c); }
  Value ge(Value a, Value c) const { return b.binary(Opcode::kGe, a, c); }
  Value le(Value a, Value c) const { return b.binary(Opcode::kLe, a, c); }
  Value eq(Value a, Value c) const { return b.binary(Opcode::kEq, a, c); }
  Value ne(Value a, Value c) const { return b.binary(Opcode::kNe, a, c); }
  Value select(Value condition, Value a, Value c) const { return b.select(condition, a, c); }
  Value call(Math math, Value a, Value c = -1) const { return b.call(math, a, c); }
  Value unary(Opcode opcode, Value a) const { return b.unary(opcode, a); }
  Value binary(Opcode opcode, Value a, Value c) const { return b.binary(opcode, a, c); }

 private:
  const Argument& argument(size_t k) const { return node_.arguments[k]; }

  const Node& node_;
  const std::vector<Value>& operands_;
  const std::vector<Value>& raw_;
  at::ScalarType common_, result_;
};

struct PointwiseOp {
  c10::OperatorName name;
  DtypeRule rule;
  uint8_t classes;  // DtypeClass
  // Numbers take part in float arithmetic unrounded when the common dtype is half or bfloat16 (add,
  // mul and kin in ATen do this); elsewhere they are first rounded to the common dtype.
  bool unrounded_numbers;
  // Returns the result in the register type of the result dtype, or nullopt where these constants
  // or dtypes are not compiled (the op-by-op path then computes it, or raises what eager raises).
  std::optional<Value> (*lower)(const Lowering&);
  StrideRule strides;

  c10::OperatorHandle handle() const;  // in the dispatcher
  const c10::FunctionSchema& schema() const { return handle().schema(); }
  std::string short_name() const { return name.name.substr(name.name.find("::") + 2); }  // "mul"
};

// All rows, in the table's order.
const std::vector<PointwiseOp>& pointwise_ops();

// The row of an overload such as {"aten::mul", "Tensor"}, or nullptr.
const PointwiseOp* find_pointwise_op(const c10::OperatorName& name);

}  // namespace scramjet::codegen
