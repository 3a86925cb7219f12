#include "codegen/lower.h"

#include <ATen/core/ivalue.h>
#include <ATen/native/TypeProperties.h>
#include <c10/core/DefaultDtype.h>

#include <cmath>

#include "amp/autocast_to.h"
#include "codegen/pointwise_ops.h"

namespace scramjet::codegen {
namespace {

// A value of the DAG while it is lowered.
struct Typed {
  Value value;
  InputType type;
  bool
      exact;  // holds a number of its dtype exactly: not an unrounded half or bfloat16 intermediate
};

bool is_reduced(at::ScalarType dtype) { return dtype == at::kHalf || dtype == at::kBFloat16; }

// Numbers in these arguments take part in type promotion; alpha, value, weight and the rest do not.
bool promotes(const std::string& argument) {
  return argument == "self" || argument == "other" || argument == "exponent" || argument == "min" ||
         argument == "max";
}

at::ScalarType default_dtype() { return c10::get_default_dtype_as_scalartype(); }

uint8_t dtype_class(at::ScalarType dtype) {
  if (dtype == at::kBool) return kBoolean;
  if (at::isIntegralType(dtype, /*includeBool=*/false)) return kInteger;
  return kFloating;
}

class NodeLowering {
 public:
  NodeLowering(ScalarBuilder& builder, const std::vector<Typed>& values, const Node& node,
               const LowerOptions& options)
      : builder_(builder), values_(values), node_(node), options_(options) {}

  // nullopt: not compiled, see reason().
  std::optional<Typed> run() {
    if (!infer_dtypes()) return std::nullopt;
    if (!(node_.op->classes & dtype_class(common_))) return refuse(c10::str("on ", common_));
    const size_t count = node_.arguments.size();
    std::vector<Value> operands(count, -1), raw(count, -1);
    for (size_t k = 0; k < count; ++k) {
      const Argument& argument = node_.arguments[k];
      if (argument.is_value()) {
        raw[k] = values_[argument.value].value;
        operands[k] = convert(values_[argument.value]);
      } else if (argument.constant.isScalar() && !is_cast()) {
        if (!fits(argument.constant.toScalar()))
          return refuse(c10::str("with a number outside ", common_));
        operands[k] = number(argument.constant.toScalar());
      }
    }
    const auto value = node_.op->lower(Lowering(builder_, node_, operands, raw, common_, result_));
    if (!value) return refuse(c10::str("on ", common_, " with these constants"));
    const bool rounds = is_reduced(result_) && options_.round_like_eager;
    return Typed{rounds ? builder_.round(*value, result_) : *value,
                 {result_, zero_dim()},
                 !is_reduced(result_) || rounds || is_cast()};
  }

  const std::string& reason() const { return reason_; }
  NodeDtypes dtypes() const { return {common_, result_}; }

 private:
  std::nullopt_t refuse(const std::string& why) {
    reason_ = node_.op->name.name + " " + why;
    return std::nullopt;
  }

  bool is_cast() const {
    return node_.op->rule == DtypeRule::kDtypeArgument || node_.op->rule == DtypeRule::kAutocast;
  }

  bool zero_dim() const {
    for (const Argument& argument : node_.arguments) {
      if (argument.is_value() && !values_[argument.value].type.zero_dim) return false;
    }
    return true;
  }

  const InputType& first_tensor() const {
    for (const Argument& argument : node_.arguments) {
      if (argument.is_value()) return values_[argument.value].type;
    }
    TORCH_INTERNAL_ASSERT(false, "a node without tensors");
  }

  // torch.result_type over the tensors and promoting numbers from argument `first` on.
  at::ScalarType promote(size_t first) const {
    at::native::ResultTypeState state;
    const auto merge = [](at::ScalarType& into, at::ScalarType dtype) {
      into = into == at::ScalarType::Undefined ? dtype : c10::promoteTypes(into, dtype);
    };
    const auto& schema = node_.op->schema().arguments();
    for (size_t k = first; k < node_.arguments.size(); ++k) {
      const Argument& argument = node_.arguments[k];
      if (argument.is_value()) {
        const InputType& type = values_[argument.value].type;
        merge(type.zero_dim ? state.zeroResult : state.dimResult, type.dtype);
      } else if (argument.constant.isScalar() && promotes(schema[k].name())) {
        const at::ScalarType dtype = argument.constant.toScalar().type();
        merge(state.wrappedResult, at::isFloatingType(dtype) ? default_dtype() : dtype);
      }
    }
    return at::native::result_type(state);
  }

  bool infer_dtypes() {
    using enum DtypeRule;
    switch (node_.op->rule) {
      case kPromote:
      case kPromoteToFloat:
      case kCompare:
        common_ = promote(0);
        if (node_.op->rule == kPromoteToFloat && !at::isFloatingType(common_))
          common_ = default_dtype();
        result_ = node_.op->rule == kCompare ? at::kBool : common_;
        break;
      case kSelf:
      case kMasked:
      case kSelfToBool:
        common_ = first_tensor().dtype;
        result_ = node_.op->rule == kSelfToBool ? at::kBool : common_;
        break;
      case kBranches:
        common_ = result_ = promote(1);
        break;
      case kDtypeArgument:
        common_ = first_tensor().dtype;
        result_ = static_cast<at::ScalarType>(node_.arguments[1].constant.toInt());
        break;
      case kAutocast:
        common_ = first_tensor().dtype;
        result_ = static_cast<at::ScalarType>(node_.arguments[2].constant.toInt());
        // A kernel is compiled for tensors on the CPU; what the operator refuses, it shall refuse.
        if (node_.arguments[1].constant.toInt() != static_cast<int64_t>(at::kCPU) ||
            !amp::is_cast(result_))
          return refuse("with these arguments"), false;
        if (!amp::is_cast(common_)) result_ = common_;
        break;
    }
    if (register_type(common_) == at::ScalarType::Undefined ||
        register_type(result_) == at::ScalarType::Undefined) {
      return refuse(c10::str("on ", common_)), false;
    }
    return check_tensors();
  }

  bool check_tensors() {
    for (size_t k = 0; k < node_.arguments.size(); ++k) {
      if (!node_.arguments[k].is_value()) continue;
      const at::ScalarType dtype = values_[node_.arguments[k].value].type.dtype;
      const bool mask = (node_.op->rule == DtypeRule::kBranches && k == 0) ||
                        (node_.op->rule == DtypeRule::kMasked && k == 1);
      if (mask && dtype != at::kBool)
        return refuse(c10::str("with a ", dtype, " condition")), false;
      if (!mask && node_.op->rule == DtypeRule::kSelf && dtype != common_)
        return refuse("on mixed dtypes"), false;
    }
    return true;
  }

  // A number of the op's, exact in an integer or bool common dtype? (Eager decides what happens
  // where it is not.)
  bool fits(const at::Scalar& number) const {
    if (at::isFloatingType(common_)) return true;
    if (number.isBoolean()) return true;
    if (number.isFloatingPoint() || common_ == at::kBool) {
      const double value = number.to<double>();
      return value == 0 || value == 1;
    }
    const int64_t value = number.to<int64_t>();
    switch (common_) {
      case at::kByte:
        return value == static_cast<uint8_t>(value);
      case at::kChar:
        return value == static_cast<int8_t>(value);
      case at::kShort:
        return value == static_cast<int16_t>(value);
      case at::kInt:
        return value == static_cast<int32_t>(value);
      default:
        return true;
    }
  }

  Value number(const at::Scalar& number) const {
    const at::ScalarType type = register_type(common_);
    if (!at::isFloatingType(common_)) return builder_.integer(number.to<int64_t>(), type);
    const Value value = number.isFloatingPoint() ? builder_.constant(number.to<double>(), type)
                                                 : builder_.integer(number.to<int64_t>(), type);
    const bool rounds = is_reduced(common_) && !node_.op->unrounded_numbers;
    return rounds ? builder_.round(value, common_) : value;
  }

  // A tensor operand in the common dtype. Where a small difference becomes a large one
  // (comparisons, casts to integers), a half or bfloat16 intermediate is rounded first, so that the
  // answer is eager's.
  Value convert(const Typed& operand) const {
    using enum DtypeRule;
    const DtypeRule rule = node_.op->rule;
    const bool decides = rule == kCompare || rule == kSelfToBool || is_cast();
    Value value = operand.value;
    if (decides && !operand.exact) value = builder_.round(value, operand.type.dtype);
    value = builder_.cast(value, register_type(common_));
    const bool narrows = is_reduced(common_) && operand.type.dtype != common_;
    return narrows ? builder_.round(value, common_) : value;
  }

  ScalarBuilder& builder_;
  const std::vector<Typed>& values_;
  const Node& node_;
  const LowerOptions& options_;
  at::ScalarType common_ = at::ScalarType::Undefined, result_ = at::ScalarType::Undefined;
  std::string reason_;
};

}  // namespace

std::optional<ScalarProgram> lower(const Kernel& kernel, const std::vector<InputType>& inputs,
                                   const LowerOptions& options, std::vector<NodeDtypes>* dtypes,
                                   std::string* reason) {
  std::vector<at::ScalarType> memory;
  for (const InputType& input : inputs) {
    if (register_type(input.dtype) == at::ScalarType::Undefined) {
      *reason = c10::str("inputs of dtype ", input.dtype);
      return std::nullopt;
    }
    memory.push_back(input.dtype);
  }
  ScalarBuilder builder(memory);
  std::vector<Typed> values;
  for (size_t k = 0; k < inputs.size(); ++k)
    values.push_back({builder.load(static_cast<int32_t>(k)), inputs[k], true});
  for (const Node& node : kernel.nodes) {
    NodeLowering lowering(builder, values, node, options);
    const auto typed = lowering.run();
    if (!typed) {
      *reason = lowering.reason();
      return std::nullopt;
    }
    values.push_back(*typed);
    dtypes->push_back(lowering.dtypes());
  }
  for (int32_t output : kernel.outputs)
    builder.store(values[output].value, values[output].type.dtype);
  return builder.finish();
}

}  // namespace scramjet::codegen
