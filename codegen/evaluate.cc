#include "codegen/evaluate.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "codegen/pointwise_ops.h"

namespace scramjet::codegen {
namespace {

// For each value the last node that reads it; outputs and unread values: never freed early.
std::vector<size_t> last_reads(const Kernel& kernel, size_t values) {
  std::vector<size_t> last(values, kernel.nodes.size());
  for (size_t k = 0; k < kernel.nodes.size(); ++k) {
    for (const Argument& argument : kernel.nodes[k].arguments) {
      if (argument.is_value()) last[argument.value] = k;
    }
  }
  for (int32_t output : kernel.outputs) last[output] = kernel.nodes.size();
  return last;
}

}  // namespace

std::vector<at::Tensor> evaluate(const Kernel& kernel, at::ArrayRef<at::Tensor> inputs) {
  std::vector<at::Tensor> values(inputs.begin(), inputs.end());
  const std::vector<size_t> last = last_reads(kernel, inputs.size() + kernel.nodes.size());
  torch::jit::Stack stack;
  for (size_t k = 0; k < kernel.nodes.size(); ++k) {
    const Node& node = kernel.nodes[k];
    stack.clear();
    for (const Argument& argument : node.arguments) {
      if (argument.is_value()) {
        stack.emplace_back(values[argument.value]);
      } else {
        stack.push_back(argument.constant);
      }
    }
    node.op->handle().callBoxed(stack);
    values.push_back(std::move(stack.back()).toTensor());
    for (const Argument& argument : node.arguments) {
      if (argument.is_value() && last[argument.value] == k) values[argument.value].reset();
    }
  }
  std::vector<at::Tensor> outputs;
  for (int32_t output : kernel.outputs) outputs.push_back(values[output]);
  return outputs;
}

}  // namespace scramjet::codegen
