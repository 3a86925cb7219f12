#include "passes/analysis/pointwise.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/jit/ir/constants.h>

namespace scramjet::passes {
namespace {

std::optional<c10::OperatorName> operator_name(const torch::jit::Node* node) {
  const c10::FunctionSchema* schema = node->maybeSchema();
  if (schema == nullptr) return std::nullopt;
  return schema->operator_name();
}

bool is_kernel_constant(const c10::IValue& value) {
  return value.isNone() || value.isScalar() ? !value.isComplexDouble() : value.isString();
}

}  // namespace

const codegen::PointwiseOp* pointwise_row(const torch::jit::Node* node, std::string* reason) {
  const auto name = operator_name(node);
  const codegen::PointwiseOp* op = name ? codegen::find_pointwise_op(*name) : nullptr;
  if (op == nullptr) {
    *reason = "no row in the op table";
    return nullptr;
  }
  const auto& arguments = node->schema().arguments();
  bool any_tensor = false;
  for (size_t k = 0; k < arguments.size(); ++k) {
    const torch::jit::Value* value = node->input(k);
    if (value->type()->isSubtypeOf(*c10::TensorType::get())) {
      any_tensor = true;
      continue;
    }
    const auto constant = torch::jit::toIValue(value);
    if (!constant || !is_kernel_constant(*constant)) {
      *reason = "argument '" + arguments[k].name() + "' is not a constant";
      return nullptr;
    }
  }
  if (!any_tensor) {
    *reason = "no tensor argument";
    return nullptr;
  }
  return op;
}

bool is_tagged_pointwise(const torch::jit::Node* node) {
  const auto name = operator_name(node);
  if (!name) return false;
  const auto handle = c10::Dispatcher::singleton().findSchema(*name);
  return handle && handle->hasTag(at::Tag::pointwise);
}

}  // namespace scramjet::passes
