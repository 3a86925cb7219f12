#include "runtime/eager_layout.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/TensorIterator.h>

#include <algorithm>

#include "codegen/pointwise_ops.h"

namespace scramjet::runtime {
namespace {

using codegen::StrideRule;

at::Tensor shadow(at::IntArrayRef sizes, at::IntArrayRef strides) {
  return at::detail::empty_strided_meta(sizes, strides, at::kFloat);
}

at::Tensor iterator_output(const std::vector<at::Tensor>& operands) {
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(false).check_all_same_dtype(false).declare_static_dtype_and_device(
      at::kFloat, at::kMeta);
  config.add_owned_output(at::Tensor());
  for (const at::Tensor& operand : operands) config.add_const_input(operand);
  return config.build().output(0);
}

at::Tensor contiguous_output(const std::vector<at::Tensor>& operands) {
  std::vector<int64_t> sizes;
  for (const at::Tensor& operand : operands) sizes = at::infer_size(sizes, operand.sizes());
  return shadow(sizes, c10::contiguous_strides(sizes));
}

// A cast keeps dense strides and makes others dense in the same order; one that changes nothing
// returns its input, whose strides later ops order the same way.
at::Tensor cast_output(const at::Tensor& operand) {
  if (operand.is_non_overlapping_and_dense()) return operand;
  return shadow(operand.sizes(), at::infer_dense_strides(operand.sizes(), operand.strides()));
}

at::Tensor node_output(const codegen::Node& node, const std::vector<at::Tensor>& values) {
  std::vector<at::Tensor> operands;
  for (size_t k = 0; k < node.arguments.size(); ++k) {
    const codegen::Argument& argument = node.arguments[k];
    if (argument.is_value()) operands.push_back(values[argument.value]);
    // Eager makes a 0-d operand of a number that stands for a tensor.
    const std::string& name = node.op->schema().arguments()[k].name();
    if (argument.constant.isScalar() && (name == "self" || name == "other"))
      operands.push_back(shadow({}, {}));
  }
  switch (node.op->strides) {
    case StrideRule::kReversed:
      std::reverse(operands.begin(), operands.end());
      break;
    case StrideRule::kContiguous:
      return contiguous_output(operands);
    case StrideRule::kCast:
      return cast_output(operands[0]);
    case StrideRule::kIterator:
      break;
  }
  return iterator_output(operands);
}

}  // namespace

std::vector<at::Tensor> eager_layout(const codegen::Kernel& kernel,
                                     const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> values;
  for (const at::Tensor& input : inputs) values.push_back(shadow(input.sizes(), input.strides()));
  for (const codegen::Node& node : kernel.nodes) values.push_back(node_output(node, values));
  std::vector<at::Tensor> outputs;
  for (int32_t output : kernel.outputs) outputs.push_back(values[output]);
  return outputs;
}

}  // namespace scramjet::runtime
