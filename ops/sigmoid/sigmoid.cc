#include "ops/sigmoid/sigmoid.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "ops/argument_checks.h"

namespace scramjet::ops {
namespace {

// Backends without a kernel of their own come here, for a clearer error than the dispatcher's.
at::Tensor unsupported_sigmoid(const at::Tensor& x) {
  fail_unsupported("scramjet::sigmoid", "x", x);
}

at::Tensor unsupported_sigmoid_backward(const at::Tensor& grad_output, const at::Tensor& output) {
  const bool is_output =
      grad_output.layout() == at::kStrided && (grad_output.is_cpu() || grad_output.is_cuda());
  fail_unsupported("scramjet::sigmoid_backward", is_output ? "output" : "grad_output",
                   is_output ? output : grad_output);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(scramjet, m) {
  const std::vector<at::Tag> tags = {at::Tag::pt2_compliant_tag, at::Tag::pointwise};
  m.def("sigmoid(Tensor x) -> Tensor", tags);
  m.def("sigmoid_backward(Tensor grad_output, Tensor output) -> Tensor", tags);
}

TORCH_LIBRARY_IMPL(scramjet, CompositeExplicitAutograd, m) {
  m.impl("sigmoid", unsupported_sigmoid);
  m.impl("sigmoid_backward", unsupported_sigmoid_backward);
}

at::Tensor sigmoid(const at::Tensor& x) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("scramjet::sigmoid", "")
                             .typed<decltype(sigmoid)>();
  return op.call(x);
}

at::Tensor sigmoid_backward(const at::Tensor& grad_output, const at::Tensor& output) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("scramjet::sigmoid_backward", "")
                             .typed<decltype(sigmoid_backward)>();
  return op.call(grad_output, output);
}

}  // namespace scramjet::ops
