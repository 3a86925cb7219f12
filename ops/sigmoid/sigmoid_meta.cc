#include <torch/library.h>

#include "ops/elementwise_layout.h"
#include "ops/sigmoid/sigmoid_arguments.h"

namespace scramjet::ops {
namespace {

at::Tensor sigmoid_meta(const at::Tensor& x) {
  return empty_elementwise_output(x, sigmoid_result_dtype(x));
}

at::Tensor sigmoid_backward_meta(const at::Tensor& grad_output, const at::Tensor& output) {
  check_sigmoid_backward(grad_output, output);
  return empty_elementwise_output({grad_output, output}, output.scalar_type());
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, Meta, m) {
  m.impl("sigmoid", sigmoid_meta);
  m.impl("sigmoid_backward", sigmoid_backward_meta);
}

}  // namespace scramjet::ops
