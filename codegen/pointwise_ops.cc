#include "codegen/pointwise_ops.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <unordered_map>

namespace scramjet::codegen {
namespace {

using Lowered = std::optional<Value>;

// --- pieces of rows ---

// a + sign * alpha * c, alpha being argument 2: one fused multiply-add, as at::vec::fmadd in ATen's
// ufunc_add.
Value plus_scaled(const Lowering& l, Value a, Value c, int sign) {
  if (l.number(2) == 1) return sign > 0 ? l.add(a, c) : l.sub(a, c);
  if (!l.is_floating()) return l.add(a, l.mul(l.x(2), c));
  return l.b.fma(c, sign > 0 ? l.x(2) : l.neg(l.x(2)), a);
}

Lowered add(const Lowering& l, size_t other) {
  if (l.common() == at::kBool) {
    if (l.number(2) != 1) return std::nullopt;
    return l.binary(Opcode::kOr, l.x(0), l.x(other));
  }
  return plus_scaled(l, l.x(0), l.x(other), 1);
}

// x(a) - alpha * x(c). Eager refuses bool tensors.
Lowered subtract(const Lowering& l, size_t a, size_t c) {
  if (l.any_bool()) return std::nullopt;
  if (!l.is_floating()) return l.sub(l.x(a), l.mul(l.x(2), l.x(c)));
  return plus_scaled(l, l.x(a), l.x(c), -1);
}

Lowered multiply(const Lowering& l) {
  return l.binary(l.common() == at::kBool ? Opcode::kAnd : Opcode::kMul, l.x(0), l.x(1));
}

// Python's %: the sign of the divisor.
Lowered remainder(const Lowering& l) {
  const Value zero = l.constant(0), divisor = l.x(1);
  const Value mod = l.binary(Opcode::kRem, l.x(0), divisor);
  const Value signs_differ = l.binary(Opcode::kXor, l.lt(divisor, zero), l.lt(mod, zero));
  const Value fix = l.binary(Opcode::kAnd, l.ne(mod, zero), signs_differ);
  return l.select(fix, l.add(mod, divisor), mod);
}

Value reciprocal(const Lowering& l, Value x) { return l.div(l.constant(1), x); }

// The special exponents of pow_tensor_scalar in ATen's PowKernel.cpp.
Lowered power_of_number(const Lowering& l) {
  const Value x = l.x(0);
  const double exponent = l.number(1);
  if (exponent == 0) return l.constant(1);
  if (exponent == 1) return x;
  if (exponent == 2) return l.mul(x, x);
  if (exponent == 3) return l.mul(l.mul(x, x), x);
  if (!l.is_floating()) return std::nullopt;
  if (exponent == 0.5) return l.unary(Opcode::kSqrt, x);
  if (exponent == -0.5) return reciprocal(l, l.unary(Opcode::kSqrt, x));
  if (exponent == -1) return reciprocal(l, x);
  if (exponent == -2) return reciprocal(l, l.mul(x, x));
  return l.call(Math::kPow, x, l.x(1));
}

// self + value * tensor1 / tensor2. Eager refuses to divide integers.
Lowered addcdiv(const Lowering& l) {
  if (!l.is_floating_tensor(1) && !l.is_floating_tensor(2)) return std::nullopt;
  return l.add(l.x(0), l.div(l.mul(l.x(3), l.x(1)), l.x(2)));
}

// std::max and std::min with NaN passed on from either side.
Value maximum(const Lowering& l, Value a, Value c) {
  if (l.common() == at::kBool) return l.binary(Opcode::kOr, a, c);
  Value second = l.lt(a, c);
  if (l.is_floating()) second = l.binary(Opcode::kOr, second, l.ne(c, c));
  return l.select(second, c, a);
}

Value minimum(const Lowering& l, Value a, Value c) {
  if (l.common() == at::kBool) return l.binary(Opcode::kAnd, a, c);
  Value second = l.lt(c, a);
  if (l.is_floating()) second = l.binary(Opcode::kOr, second, l.ne(c, c));
  return l.select(second, c, a);
}

// Bounds that are not NaN: NaN and -0.0 in x pass through.
Value at_least(const Lowering& l, Value x, Value bound) {
  return l.select(l.lt(x, bound), bound, x);
}
Value at_most(const Lowering& l, Value x, Value bound) {
  return l.select(l.gt(x, bound), bound, x);
}

// low and high are arguments, or -1.
Lowered clamp(const Lowering& l, int low, int high) {
  Value x = l.x(0);
  if (low >= 0 && !l.is_none(low)) {
    if (std::isnan(l.number(low))) return std::nullopt;
    x = at_least(l, x, l.x(low));
  }
  if (high >= 0 && !l.is_none(high)) {
    if (std::isnan(l.number(high))) return std::nullopt;
    x = at_most(l, x, l.x(high));
  }
  return x;
}

Lowered masked_fill(const Lowering& l) { return l.select(l.condition(1), l.x(2), l.x(0)); }

Value truth(const Lowering& l, size_t k) { return l.b.cast(l.x(k), at::kBool); }

// ATen's Lerp.h: from the nearer end.
Lowered lerp(const Lowering& l) {
  const Value start = l.x(0), end = l.x(1), weight = l.x(2), difference = l.sub(end, start);
  const Value from_start = l.b.fma(weight, difference, start);
  const Value from_end = l.b.fma(l.sub(weight, l.constant(1)), difference, end);
  return l.select(l.lt(l.unary(Opcode::kAbs, weight), l.constant(0.5)), from_start, from_end);
}

Lowered absolute(const Lowering& l) {
  return l.common() == at::kByte ? l.x(0) : l.unary(Opcode::kAbs, l.x(0));
}

Lowered sign(const Lowering& l) {
  const Value zero = l.constant(0);
  const Value positive = l.b.cast(l.lt(zero, l.x(0)), l.type());
  return l.sub(positive, l.b.cast(l.lt(l.x(0), zero), l.type()));
}

Lowered rounding(const Lowering& l, Opcode opcode) {
  return l.is_floating() ? l.unary(opcode, l.x(0)) : l.x(0);
}

double largest(at::ScalarType dtype) {
  switch (dtype) {
    case at::kHalf:
      return std::numeric_limits<c10::Half>::max();
    case at::kBFloat16:
      return std::numeric_limits<c10::BFloat16>::max();
    case at::kFloat:
      return std::numeric_limits<float>::max();
    default:
      return std::numeric_limits<double>::max();
  }
}

Lowered nan_to_num(const Lowering& l) {
  const double inf = std::numeric_limits<double>::infinity(), most = largest(l.common());
  const auto or_default = [&](size_t k, double value) {
    return l.is_none(k) ? l.constant(value) : l.x(k);
  };
  const Value x = l.x(0);
  const Value not_low = l.select(l.eq(x, l.constant(-inf)), or_default(3, -most), x);
  const Value not_high = l.select(l.eq(x, l.constant(inf)), or_default(2, most), not_low);
  return l.select(l.ne(x, x), or_default(1, 0), not_high);
}

Value one_plus_exp_neg(const Lowering& l) {
  return l.add(l.constant(1), l.call(Math::kExp, l.neg(l.x(0))));
}

// GELU, https://arxiv.org/abs/1606.08415: exact, or the tanh approximation.
Lowered gelu(const Lowering& l) {
  const Value x = l.x(0), half = l.constant(0.5), one = l.constant(1);
  if (l.string(1) == "none") {
    return l.mul(l.mul(x, half), l.add(one, l.call(Math::kErf, l.mul(x, l.constant(M_SQRT1_2)))));
  }
  if (l.string(1) != "tanh") return std::nullopt;
  const Value cube = l.mul(l.mul(x, x), x);
  const Value inner =
      l.mul(l.constant(M_SQRT2 * M_2_SQRTPI * 0.5), l.add(x, l.mul(l.constant(0.044715), cube)));
  return l.mul(l.mul(half, x), l.add(one, l.call(Math::kTanh, inner)));
}

// Arguments: self, alpha, scale, input_scale.
Lowered elu(const Lowering& l) {
  const Value x = l.x(0), scale = l.x(2);
  const Value negative = l.mul(l.call(Math::kExpm1, l.mul(x, l.x(3))), l.mul(l.x(1), scale));
  return l.select(l.ge(x, l.constant(0)), l.mul(x, scale), negative);
}

// Arguments: self, beta, threshold.
Lowered softplus(const Lowering& l) {
  const Value x = l.x(0), scaled = l.mul(x, l.x(1));
  const Value soft = l.div(l.call(Math::kLog1p, l.call(Math::kExp, scaled)), l.x(1));
  return l.select(l.gt(scaled, l.x(2)), x, soft);
}

Value relu6_of_plus_3(const Lowering& l) {
  return at_most(l, at_least(l, l.add(l.x(0), l.constant(3)), l.constant(0)), l.constant(6));
}

Lowered to_result(const Lowering& l) {
  const Value value = l.b.cast(l.x(0), register_type(l.result()));
  const bool narrows = l.result() != register_type(l.result());
  return narrows ? l.b.round(value, l.result()) : value;
}

Lowered to_dtype(const Lowering& l) {
  if (!l.is_none(4)) return std::nullopt;  // a memory format
  return to_result(l);
}

// --- the table ---

#define SCRAMJET_POINTWISE(identifier, name, overload, rule, classes, unrounded, ...) \
  Lowered lower_##identifier(const Lowering& l) { __VA_ARGS__; }
#include "codegen/pointwise_ops.inc"
#undef SCRAMJET_POINTWISE

// Nearly all rows go through TensorIterator; these are the ones that do not, or not in the order of
// their arguments.
StrideRule stride_rule(const std::string& name, const std::string& overload) {
  if (name == "aten::to" || name == "scramjet::autocast_to" || name == "aten::nan_to_num")
    return StrideRule::kLike;
  if (name == "aten::rsub") return StrideRule::kReversed;
  const bool contiguous =
      name == "aten::masked_fill" || (name == "aten::pow" && overload == "Scalar");
  return contiguous ? StrideRule::kContiguous : StrideRule::kIterator;
}

std::vector<PointwiseOp> build_table() {
  using enum DtypeRule;
  std::vector<PointwiseOp> table;
#define SCRAMJET_POINTWISE(identifier, name, overload, rule, classes, unrounded, ...) \
  table.push_back({{name, overload},                                                  \
                   rule,                                                              \
                   classes,                                                           \
                   unrounded,                                                         \
                   lower_##identifier,                                                \
                   stride_rule(name, overload)});
#include "codegen/pointwise_ops.inc"
#undef SCRAMJET_POINTWISE
  return table;
}

}  // namespace

bool Lowering::any_bool() const {
  return std::any_of(raw_.begin(), raw_.end(),
                     [&](Value value) { return value >= 0 && b.type(value) == at::kBool; });
}

const std::vector<PointwiseOp>& pointwise_ops() {
  static const std::vector<PointwiseOp> table = build_table();
  return table;
}

const PointwiseOp* find_pointwise_op(const c10::OperatorName& name) {
  static const auto by_name = [] {
    std::unordered_map<c10::OperatorName, const PointwiseOp*> map;
    for (const PointwiseOp& op : pointwise_ops()) map.emplace(op.name, &op);
    return map;
  }();
  const auto at = by_name.find(name);
  return at == by_name.end() ? nullptr : at->second;
}

c10::OperatorHandle PointwiseOp::handle() const {
  static std::unordered_map<const PointwiseOp*, c10::OperatorHandle> handles = [] {
    std::unordered_map<const PointwiseOp*, c10::OperatorHandle> found;
    for (const PointwiseOp& op : pointwise_ops()) {
      found.emplace(&op, c10::Dispatcher::singleton().findSchemaOrThrow(
                             op.name.name.c_str(), op.name.overload_name.c_str()));
    }
    return found;
  }();
  return handles.at(this);
}

}  // namespace scramjet::codegen
