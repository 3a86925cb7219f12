// Every row of the op table, on every dtype and a range of layouts, against eager: machine code and
// eager must agree in dtype, sizes, strides and values, NaN and the sign of zero included.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "codegen/evaluate.h"
#include "codegen/pointwise_ops.h"
#include "runtime/run.h"

namespace scramjet {
namespace {

using codegen::Argument;
using codegen::Kernel;
using codegen::Node;
using codegen::PointwiseOp;

const std::vector<at::ScalarType>& dtypes() {
  static const std::vector<at::ScalarType> all = {
      at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong,
      at::kInt,   at::kShort,  at::kChar, at::kByte,     at::kBool};
  return all;
}

// Values at which formulas go wrong, then ordinary ones.
at::Tensor values(at::ScalarType dtype, int64_t count, int seed) {
  at::manual_seed(seed);
  if (!at::isFloatingType(dtype))
    return at::randint(dtype == at::kByte || dtype == at::kBool ? 0 : -9, 10, {count}, at::kLong)
        .to(dtype);
  const double inf = std::numeric_limits<double>::infinity(),
               nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> special = {nan,  inf,  -inf,  0.0,  -0.0, 1.0,   -1.0,
                                       0.5,  -0.5, 1.5,   2.5,  -2.5, 1e-40, 3.0,
                                       -3.0, 20.5, -20.5, 1e-8, 87.0, -100.0};
  at::Tensor x = at::randn({count}, at::kDouble).mul_(3);
  const int64_t n = std::min<int64_t>(count / 2, special.size());
  // Another order for another operand, so that special values meet each other.
  const at::Tensor chosen =
      at::tensor(special, at::kDouble).index_select(0, at::randperm(special.size())).slice(0, 0, n);
  x.slice(0, 0, n).copy_(chosen);
  return x.to(dtype);
}

// A number that suits the argument, so that formulas are in their usual range.
c10::IValue number_for(const std::string& op, const std::string& argument, const c10::Type& type) {
  if (argument == "device_type") return static_cast<int64_t>(at::kCPU);
  if (argument == "dtype" && op == "scramjet::autocast_to")
    return static_cast<int64_t>(at::kBFloat16);
  if (argument == "dtype")
    return static_cast<int64_t>(at::kDouble);  // a cast that changes nothing returns its input
  if (argument == "non_blocking" || argument == "copy") return false;
  if (argument == "memory_format" || argument == "nan" || argument == "posinf") return {};
  if (argument == "neginf") return -5.0;
  if (argument == "approximate") return "tanh";
  if (argument == "min" || argument == "min_val") return -1;
  if (argument == "max" || argument == "max_val") return 2;
  if (argument == "alpha" && op != "aten::elu") return 2;
  if (argument == "exponent") return 3;
  if (argument == "other" || argument == "self") return 2;
  if (type.kind() == c10::TypeKind::BoolType) return true;
  return 0.75;
}

struct Case {
  Kernel kernel;
  std::vector<at::Tensor> inputs;
};

// One node: the row's op, its tensor arguments the kernel's inputs.
Case make_case(const PointwiseOp& op, at::ScalarType dtype, int64_t count) {
  Case made;
  Node node{&op, {}};
  for (const c10::Argument& argument : op.schema().arguments()) {
    if (argument.type()->isSubtypeOf(*c10::TensorType::get())) {
      const bool mask = argument.name() == "condition" || argument.name() == "mask";
      node.arguments.push_back({static_cast<int32_t>(made.inputs.size()), {}});
      made.inputs.push_back(
          values(mask ? at::kBool : dtype, count, static_cast<int>(made.inputs.size())));
      // Sleef's fmod, in ATen's vector code, gives NaN for a denormal divisor; C's fmod, at a
      // tensor's end, does not.
      const bool divisor = argument.name() == "other" &&
                           (op.short_name() == "fmod" || op.short_name() == "remainder");
      if (divisor && at::isFloatingType(dtype))
        made.inputs.back().masked_fill_(
            made.inputs.back().abs().lt(1e-6).logical_and(made.inputs.back().ne(0)), 1);
    } else {
      node.arguments.push_back({-1, number_for(op.name.name, argument.name(), *argument.type())});
    }
  }
  made.kernel.name = codegen::describe({node});
  made.kernel.num_inputs = static_cast<int32_t>(made.inputs.size());
  made.kernel.outputs = {made.kernel.num_inputs};
  made.kernel.nodes.push_back(std::move(node));
  return made;
}

// Units in the last place of the dtype that an answer may be off: both sides call functions good to
// 1 ulp, and ATen itself differs by as much between its vector code, MKL and the scalar code at a
// tensor's end.
double tolerance(at::ScalarType dtype) {
  switch (dtype) {
    case at::kHalf:
      return 1e-3;
    case at::kBFloat16:
      return 8e-3;
    case at::kFloat:
      return 1e-6;
    default:
      return 1e-14;
  }
}

// An empty string where they agree.
std::string difference(const at::Tensor& got, const at::Tensor& want, bool check_sign_of_zero) {
  if (got.scalar_type() != want.scalar_type())
    return c10::str("dtype ", got.scalar_type(), ", want ", want.scalar_type());
  if (got.sizes() != want.sizes()) return c10::str("sizes ", got.sizes(), ", want ", want.sizes());
  if (got.strides() != want.strides())
    return c10::str("strides ", got.strides(), ", want ", want.strides());
  if (!want.is_floating_point())
    return got.equal(want) ? ""
                           : c10::str("values ", got.flatten().slice(0, 0, 20), " want ",
                                      want.flatten().slice(0, 0, 20));
  const at::Tensor x = got.to(at::kDouble), y = want.to(at::kDouble);
  const double allowed = tolerance(want.scalar_type());
  const at::Tensor bad = x.isclose(y, allowed, allowed * 1e-1, /*equal_nan=*/true).logical_not();
  if (bad.any().item().toBool())
    return c10::str("values ", x.masked_select(bad).slice(0, 0, 5), " want ",
                    y.masked_select(bad).slice(0, 0, 5));
  if (!check_sign_of_zero) return "";
  const at::Tensor zero = y.eq(0).logical_and(x.eq(0));
  const at::Tensor signs = x.signbit().ne(y.signbit()).logical_and(zero);
  return signs.any().item().toBool() ? "sign of zero" : "";
}

// Runs the case both ways; eager raising means the kernel must raise too.
void expect_equal(Case& made, const std::string& what) {
  runtime::KernelObject kernel(made.kernel, {});
  std::vector<at::Tensor> want;
  try {
    want = codegen::evaluate(made.kernel, made.inputs);
    // A cast that changes nothing returns its input, with whatever strides; a kernel does not.
    if (want[0].is_alias_of(made.inputs[0])) return;
  } catch (const c10::Error&) {
    EXPECT_THROW(runtime::run(kernel, made.inputs), c10::Error) << what;
    return;
  }
  const std::vector<at::Tensor> got = runtime::run(kernel, made.inputs);
  // Which of 0.0 and -0.0 is the larger, ATen answers one way in its vector code and another at a
  // tensor's end.
  const std::string op = made.kernel.nodes[0].op->short_name();
  EXPECT_EQ(difference(got[0], want[0], op != "maximum" && op != "minimum"), "") << what;
}

std::string describe_case(const PointwiseOp& op, at::ScalarType dtype, const std::string& layout) {
  return c10::str(op.name, " on ", dtype, ", ", layout);
}

class OpTable : public testing::TestWithParam<const PointwiseOp*> {};

TEST_P(OpTable, EveryDtype) {
  for (at::ScalarType dtype : dtypes()) {
    for (int64_t count : {1, 7, 33, 300}) {
      Case made = make_case(*GetParam(), dtype, count);
      expect_equal(made, describe_case(*GetParam(), dtype, c10::str(count, " elements")));
    }
  }
}

TEST_P(OpTable, EveryLayout) {
  const std::vector<std::pair<std::string, at::Tensor (*)(const at::Tensor&, size_t)>> layouts = {
      {"0-d", [](const at::Tensor& x, size_t) { return x[3]; }},
      {"empty", [](const at::Tensor& x, size_t) { return x.slice(0, 0, 0); }},
      {"transposed",
       [](const at::Tensor& x, size_t) {
         return x.view({15, 20}).t();
       }},
      {"one transposed",
       [](const at::Tensor& x, size_t k) {
         return k == 0 ? x.view({10, 30}).t() : x.view({30, 10});
       }},
      {"every other", [](const at::Tensor& x, size_t) { return x.slice(0, 0, 300, 2); }},
      {"row broadcast",
       [](const at::Tensor& x, size_t k) {
         return k == 0 ? x.view({15, 20}) : x.slice(0, 0, 20);
       }},
      {"column broadcast",
       [](const at::Tensor& x, size_t k) {
         return k == 0 ? x.slice(0, 0, 15).view({15, 1}) : x.view({15, 20});
       }},
      {"outer",
       [](const at::Tensor& x, size_t k) {
         return k == 0 ? x.slice(0, 0, 15).view({15, 1}) : x.slice(0, 0, 20).view({1, 20});
       }},
      {"0-d second", [](const at::Tensor& x, size_t k) { return k == 0 ? x : x[5]; }},
      {"channels last",
       [](const at::Tensor& x, size_t) {
         return x.view({3, 4, 5, 5}).contiguous(at::MemoryFormat::ChannelsLast);
       }},
  };
  for (at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kLong}) {
    for (const auto& [name, apply] : layouts) {
      Case made = make_case(*GetParam(), dtype, 300);
      for (size_t k = 0; k < made.inputs.size(); ++k) made.inputs[k] = apply(made.inputs[k], k);
      expect_equal(made, describe_case(*GetParam(), dtype, name));
    }
  }
}

TEST_P(OpTable, MixedDtypes) {
  for (at::ScalarType first : dtypes()) {
    for (at::ScalarType second : {at::kFloat, at::kHalf, at::kLong, at::kByte, at::kBool}) {
      Case made = make_case(*GetParam(), first, 40);
      if (made.inputs.size() < 2) return;
      for (size_t k = 1; k < made.inputs.size(); ++k) {
        if (made.inputs[k].scalar_type() != at::kBool || first == at::kBool)
          made.inputs[k] = made.inputs[k].to(second);
      }
      expect_equal(made, c10::str(GetParam()->name, " on ", first, " and ", second));
      made.inputs[1] = made.inputs[1][0];  // a 0-d tensor takes part in promotion by category only
      expect_equal(made, c10::str(GetParam()->name, " on ", first, " and 0-d ", second));
    }
  }
}

// A row that is never compiled would pass all tests above.
TEST_P(OpTable, IsCompiled) {
  const at::ScalarType dtype = GetParam()->classes & codegen::kFloating ? at::kFloat : at::kLong;
  Case made = make_case(*GetParam(), dtype, 40);
  runtime::KernelObject kernel(made.kernel, {});
  EXPECT_EQ(runtime::why_op_by_op(kernel, made.inputs), "");
}

std::vector<const PointwiseOp*> rows() {
  std::vector<const PointwiseOp*> all;
  for (const PointwiseOp& op : codegen::pointwise_ops()) all.push_back(&op);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Rows, OpTable, testing::ValuesIn(rows()), [](const auto& info) {
  return info.param->short_name() +
         (info.param->name.overload_name.empty() ? "" : "_" + info.param->name.overload_name);
});

TEST(OpTableSize, HasTheRowsThatWerePromised) { EXPECT_GE(codegen::pointwise_ops().size(), 45u); }

}  // namespace
}  // namespace scramjet
