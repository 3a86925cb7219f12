// The table against the dispatcher: an operator has a policy where torch registers an autocast
// kernel for it, and that kernel does to its arguments what the policy says. For the latter, each
// kernel is called on tensors without data, and a fallback on a key above autocast catches the
// casts it asks for and the call it ends in, so CUDA's kernels are tested without a CUDA device.
#include "amp/cast_policy.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <set>
#include <string>

namespace scramjet::amp {
namespace {

using Dtypes = std::vector<at::ScalarType>;

constexpr auto kCatcher = c10::DispatchKey::TESTING_ONLY_GenericMode;
constexpr at::ScalarType kLow = at::kHalf;

at::Tensor tensor_without_data(at::DeviceType device, at::ScalarType dtype) {
  const auto key = device == at::kCUDA ? c10::DispatchKey::CUDA : c10::DispatchKey::CPU;
  return at::detail::make_tensor<c10::TensorImpl>(
      c10::DispatchKeySet(key), c10::scalarTypeToTypeMeta(dtype),
      c10::Device(device, device == at::kCUDA ? 0 : -1));
}

/// What an autocast kernel did with a call.
struct Outcome {
  std::string overload;                 // that it called
  Dtypes tensors;                       // the dtypes of that call's tensors
  std::optional<at::ScalarType> dtype;  // of its argument `dtype`
};

struct Stop {
  Outcome outcome;
};

/// The operator under test, and whether its autocast kernel is already running.
struct {
  c10::OperatorName op{"", ""};
  bool in_kernel = false;
} probe;

Outcome outcome_of(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  Outcome outcome{.overload = op.operator_name().overload_name, .tensors = {}, .dtype = {}};
  const auto& arguments = op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::IValue& value = stack[stack.size() - arguments.size() + i];
    if (value.isTensor() && value.toTensor().defined())
      outcome.tensors.push_back(value.toTensor().scalar_type());
    if (value.isTensorList()) {
      for (const at::Tensor& t : value.toTensorVector()) outcome.tensors.push_back(t.scalar_type());
    }
    if (arguments[i].name() == "dtype" && !value.isNone()) outcome.dtype = value.toScalarType();
  }
  return outcome;
}

void catch_call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const std::string& name = op.operator_name().name;
  if (name == "aten::to") {
    const at::Tensor from = (*stack)[stack->size() - op.schema().arguments().size()].toTensor();
    const at::ScalarType dtype = outcome_of(op, *stack).dtype.value();
    torch::jit::drop(*stack, op.schema().arguments().size());
    stack->emplace_back(tensor_without_data(from.device().type(), dtype));
  } else if (name == probe.op.name && probe.in_kernel) {
    throw Stop{outcome_of(op, *stack)};
  } else {
    probe.in_kernel = true;
    op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kCatcher),
                       stack);
  }
}

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&catch_call>());
}

/// Hands out `dtypes`, over and over, to the tensors of one call.
class Arguments {
 public:
  Arguments(at::DeviceType device, const c10::OperatorHandle& op, Dtypes dtypes)
      : device_(device),
        dtypes_(std::move(dtypes)),
        // Its weights, of another dtype, would be copied first, by a CUDA kernel.
        lists_are_low_(op.operator_name().name == "aten::_cudnn_rnn") {}

  c10::IValue value_for(const c10::Argument& argument) {
    if (argument.default_value().has_value()) return *argument.default_value();
    switch (argument.type()->kind()) {
      case c10::TypeKind::TensorType:
        return next();
      case c10::TypeKind::ListType:
        return list(*argument.type()->castRaw<c10::ListType>()->getElementType());
      case c10::TypeKind::IntType:
      case c10::TypeKind::NumberType:
        return 3;  // which _cudnn_rnn allows as weight_stride0
      case c10::TypeKind::FloatType:
        return 1.0;
      case c10::TypeKind::BoolType:
        return false;
      case c10::TypeKind::StringType:
        return "";
      default:
        return {};
    }
  }

 private:
  at::Tensor next() { return tensor_without_data(device_, dtypes_[count_++ % dtypes_.size()]); }

  c10::IValue list(const c10::Type& element) {
    switch (element.kind()) {
      case c10::TypeKind::TensorType:
        if (lists_are_low_) return std::vector<at::Tensor>{tensor_without_data(device_, kLow)};
        return std::vector<at::Tensor>{next(), next()};
      case c10::TypeKind::OptionalType:
        return c10::List<std::optional<at::Tensor>>({std::nullopt});
      case c10::TypeKind::FloatType:
        return std::vector<double>{1};
      case c10::TypeKind::BoolType:
        return c10::List<bool>({true});
      default:
        return std::vector<int64_t>{1};
    }
  }

  at::DeviceType device_;
  Dtypes dtypes_;
  bool lists_are_low_;
  size_t count_ = 0;
};

class EnabledAutocast {  // not amp::Autocast, which wants a CUDA device for CUDA
 public:
  explicit EnabledAutocast(at::DeviceType device)
      : device_(device), dtype_(at::autocast::get_autocast_dtype(device)) {
    at::autocast::set_autocast_dtype(device, kLow);
    at::autocast::set_autocast_enabled(device, true);
  }
  ~EnabledAutocast() {
    at::autocast::set_autocast_dtype(device_, dtype_);
    at::autocast::set_autocast_enabled(device_, false);
  }

 private:
  at::DeviceType device_;
  at::ScalarType dtype_;
};

/// None where the call fails before autocast's kernel hands it on.
std::optional<Outcome> call(at::DeviceType device, const c10::OperatorHandle& op, Dtypes dtypes) {
  Arguments arguments(device, op, std::move(dtypes));
  torch::jit::Stack stack;
  for (const c10::Argument& argument : op.schema().arguments()) {
    stack.push_back(arguments.value_for(argument));
  }
  const EnabledAutocast autocast(device);
  const c10::impl::IncludeDispatchKeyGuard caught(kCatcher);
  probe = {op.operator_name(), false};
  try {
    op.callBoxed(&stack);
  } catch (const Stop& stop) {
    return stop.outcome;
  } catch (const c10::Error&) {
  }
  return std::nullopt;
}

/// The policy that the autocast kernel of `op` shows; none where it leaves its arguments alone.
std::optional<CastPolicy> shown_policy(at::DeviceType device, const c10::OperatorHandle& op) {
  const auto of_float = call(device, op, {at::kFloat});
  const auto of_low = call(device, op, {kLow});
  if (!of_float.has_value() && !of_low.has_value()) return CastPolicy::banned;
  if (!of_low.has_value()) return std::nullopt;
  if (of_low->dtype == at::kFloat) {
    return of_low->overload == op.operator_name().overload_name ? CastPolicy::fp32_set_opt_dtype
                                                                : CastPolicy::fp32_append_dtype;
  }
  const auto all = [](const std::optional<Outcome>& outcome, at::ScalarType dtype) {
    return outcome.has_value() && outcome->tensors == Dtypes(outcome->tensors.size(), dtype);
  };
  if (all(of_low, at::kFloat)) return CastPolicy::fp32;
  if (all(of_float, kLow)) return CastPolicy::lower_precision_fp;
  const auto of_both = call(device, op, {at::kFloat, kLow});
  if (all(of_both, at::kFloat)) return CastPolicy::promote;
  return std::nullopt;
}

bool takes_names(const c10::FunctionSchema& schema) {
  return c10::toString(schema.operator_name()).find("imname") != std::string::npos ||
         schema.overload_name().starts_with("names_");
}

class CastPolicyTest : public testing::TestWithParam<at::DeviceType> {
 protected:
  std::vector<c10::OperatorHandle> treated() const {
    const auto key = at::autocast::get_autocast_dispatch_key_from_device_type(GetParam());
    std::vector<c10::OperatorHandle> result;
    for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
      const auto op = c10::Dispatcher::singleton().findOp(name);
      if (name.getNamespace() == "aten" && op->hasKernelForDispatchKey(key)) result.push_back(*op);
    }
    return result;
  }
};

TEST_P(CastPolicyTest, HasEveryOperatorThatTorchTreatsAndNoOther) {
  std::set<std::string> torch, table;
  for (const c10::OperatorHandle& op : treated()) torch.insert(c10::toString(op.operator_name()));
  for (const auto& [name, policy] : cast_policies(GetParam())) table.insert(c10::toString(name));
  EXPECT_GT(torch.size(), 100);
  EXPECT_EQ(table, torch);
}

TEST_P(CastPolicyTest, SaysWhatTheKernelDoes) {
  for (const c10::OperatorHandle& op : treated()) {
    const auto shown = shown_policy(GetParam(), op);
    const auto said = cast_policy(GetParam(), op.operator_name());
    ASSERT_TRUE(said.has_value()) << op.operator_name();
    EXPECT_TRUE(shown.has_value()) << op.operator_name() << " leaves its arguments alone";
    // In torch 2.11 the overloads for named tensors refuse these, which have no names.
    if (shown == CastPolicy::banned && takes_names(op.schema())) continue;
    EXPECT_EQ(*said, shown.value_or(*said)) << op.operator_name();
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, CastPolicyTest, testing::Values(at::kCPU, at::kCUDA),
                         [](const auto& info) { return c10::DeviceTypeName(info.param); });

TEST(CastPolicy, DiffersByDevice) {
  EXPECT_EQ(cast_policy(at::kCUDA, {"aten::exp", ""}), CastPolicy::fp32);
  EXPECT_EQ(cast_policy(at::kCPU, {"aten::exp", ""}), std::nullopt);
  EXPECT_EQ(cast_policy(at::kCUDA, {"aten::cat", ""}), std::nullopt);
  EXPECT_EQ(cast_policy(at::kCPU, {"aten::cat", ""}), CastPolicy::promote);
  EXPECT_EQ(cast_policy(at::kCUDA, {"aten::binary_cross_entropy", ""}), CastPolicy::banned);
  EXPECT_EQ(cast_policy(at::kCPU, {"aten::binary_cross_entropy", ""}), CastPolicy::fp32);
}

TEST(CastPolicy, TellsOverloadsApart) {
  EXPECT_EQ(cast_policy(at::kCUDA, {"aten::norm", "ScalarOpt_dim"}), CastPolicy::fp32_append_dtype);
  EXPECT_EQ(cast_policy(at::kCUDA, {"aten::norm", "ScalarOpt_dim_dtype"}), std::nullopt);
  EXPECT_EQ(cast_policy(at::kCUDA, {"aten::sum", ""}), CastPolicy::fp32_set_opt_dtype);
  EXPECT_EQ(cast_policy(at::kCPU, {"aten::conv2d", "padding"}), CastPolicy::lower_precision_fp);
}

TEST(CastPolicy, AnOperatorOfAnotherLibraryHasNone) {
  EXPECT_EQ(cast_policy(at::kCPU, {"mine::mm", ""}), std::nullopt);
}

TEST(CastPolicy, FailsOnOtherDevices) {
  EXPECT_THROW(cast_policy(at::kXPU, {"aten::mm", ""}), c10::Error);
  EXPECT_THROW(cast_policies(at::kMeta), c10::Error);
}

}  // namespace
}  // namespace scramjet::amp
