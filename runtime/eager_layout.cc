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

// at::empty_like, and so a cast: keeps dense strides, and makes others dense in the same order. (A
// cast that changes nothing returns its input, whose strides later ops order the same way.)
at::Tensor like(const at::Tensor& tensor) {
  if (tensor.is_non_overlapping_and_dense()) return tensor;
  return shadow(tensor.sizes(), at::infer_dense_strides(tensor.sizes(), tensor.strides()));
}

// A tensor of the kernel: its layout, and the dtype it would have.
struct Shadow {
  at::Tensor layout;
  at::ScalarType dtype;
};

// TensorIterator casts a tensor of another dtype before it looks at strides; masks stay as they
// are.
at::Tensor operand(const codegen::Node& node, const std::string& argument, const Shadow& value,
                   at::ScalarType common) {
  const bool mask = argument == "condition" || argument == "mask";
  const bool cast = node.op->strides != StrideRule::kLike && !mask && value.dtype != common;
  return cast ? like(value.layout) : value.layout;
}

at::Tensor node_output(const codegen::Node& node, const std::vector<Shadow>& values,
                       at::ScalarType common) {
  std::vector<at::Tensor> operands;
  for (size_t k = 0; k < node.arguments.size(); ++k) {
    const codegen::Argument& argument = node.arguments[k];
    const std::string& name = node.op->schema().arguments()[k].name();
    if (argument.is_value())
      operands.push_back(operand(node, name, values[argument.value], common));
    // Eager makes a 0-d operand of a number that stands for a tensor.
    if (argument.constant.isScalar() && (name == "self" || name == "other"))
      operands.push_back(shadow({}, {}));
  }
  switch (node.op->strides) {
    case StrideRule::kReversed:
      std::reverse(operands.begin(), operands.end());
      break;
    case StrideRule::kContiguous:
      return contiguous_output(operands);
    case StrideRule::kLike:
      return like(operands[0]);
    case StrideRule::kIterator:
      break;
  }
  return iterator_output(operands);
}

}  // namespace

std::vector<at::Tensor> eager_layout(const codegen::Kernel& kernel,
                                     const std::vector<at::Tensor>& inputs,
                                     const std::vector<codegen::NodeDtypes>& dtypes) {
  std::vector<Shadow> values;
  for (const at::Tensor& input : inputs) {
    values.push_back({shadow(input.sizes(), input.strides()), input.scalar_type()});
  }
  for (size_t k = 0; k < kernel.nodes.size(); ++k) {
    values.push_back({node_output(kernel.nodes[k], values, dtypes[k].common), dtypes[k].result});
  }
  std::vector<at::Tensor> outputs;
  for (int32_t output : kernel.outputs) outputs.push_back(values[output].layout);
  return outputs;
}

}  // namespace scramjet::runtime
