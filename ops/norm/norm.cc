#include "ops/norm/norm.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "ops/argument_checks.h"
#include "ops/norm/norm_kernels.h"

namespace scramjet::ops {
namespace {

using Optional = std::optional<at::Tensor>;
using Pair = std::tuple<at::Tensor, at::Tensor>;
using Triple = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

bool is_supported(const at::Tensor& x) {
  return x.layout() == at::kStrided && (x.is_cpu() || x.is_cuda());
}

void check_supported(const char* op, const char* argument, const at::Tensor& x) {
  if (x.defined() && !is_supported(x)) fail_unsupported(op, argument, x);
}

[[noreturn]] void fail(const NormArguments& call) {
  check_supported(call.op, "input", call.input);
  check_supported(call.op, "residual", call.residual);
  check_supported(call.op, "weight", call.weight);
  check_supported(call.op, "bias", call.bias);
  fail_unsupported(call.op, "input", call.input);
}

NormOutputs unsupported_norm(const NormArguments& call) { fail(call); }

NormGradients unsupported_norm_backward(const NormArguments& call, const at::Tensor& grad_output,
                                        const at::Tensor& grad_sum) {
  check_supported(call.op, "grad_output", grad_output);
  check_supported(call.op, "grad_sum", grad_sum);
  fail(call);
}

template <typename Signature>
c10::TypedOperatorHandle<Signature> find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(scramjet, m) {
  const std::vector<at::Tag> tags = {at::Tag::pt2_compliant_tag};
  m.def(
      "rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> "
      "Tensor",
      tags);
  m.def(
      "layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, "
      "float eps=1e-05) -> Tensor",
      tags);
  m.def(
      "add_rms_norm(Tensor input, Tensor residual, SymInt[] normalized_shape, Tensor? weight=None, "
      "float? eps=None) -> (Tensor output, Tensor sum)",
      tags);
  m.def(
      "add_layer_norm(Tensor input, Tensor residual, SymInt[] normalized_shape, "
      "Tensor? weight=None, Tensor? bias=None, float eps=1e-05) -> (Tensor output, Tensor sum)",
      tags);
  m.def(
      "rms_norm_backward(Tensor grad_output, Tensor? grad_sum, Tensor input, "
      "SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> (Tensor grad_input, "
      "Tensor grad_weight)",
      tags);
  m.def(
      "layer_norm_backward(Tensor grad_output, Tensor? grad_sum, Tensor input, "
      "SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05) -> "
      "(Tensor grad_input, Tensor grad_weight, Tensor grad_bias)",
      tags);
}

// Backends without a kernel of their own come here, for a clearer error than the dispatcher's.
TORCH_LIBRARY_IMPL(scramjet, CompositeExplicitAutograd, m) {
  NormKernels<unsupported_norm, unsupported_norm_backward>::add_to(m);
}

at::Tensor rms_norm(const at::Tensor& input, c10::SymIntArrayRef normalized_shape,
                    const Optional& weight, std::optional<double> eps) {
  static const auto op = find_operator<decltype(rms_norm)>("scramjet::rms_norm");
  return op.call(input, normalized_shape, weight, eps);
}

at::Tensor layer_norm(const at::Tensor& input, c10::SymIntArrayRef normalized_shape,
                      const Optional& weight, const Optional& bias, double eps) {
  static const auto op = find_operator<decltype(layer_norm)>("scramjet::layer_norm");
  return op.call(input, normalized_shape, weight, bias, eps);
}

Pair add_rms_norm(const at::Tensor& input, const at::Tensor& residual,
                  c10::SymIntArrayRef normalized_shape, const Optional& weight,
                  std::optional<double> eps) {
  static const auto op = find_operator<decltype(add_rms_norm)>("scramjet::add_rms_norm");
  return op.call(input, residual, normalized_shape, weight, eps);
}

Pair add_layer_norm(const at::Tensor& input, const at::Tensor& residual,
                    c10::SymIntArrayRef normalized_shape, const Optional& weight,
                    const Optional& bias, double eps) {
  static const auto op = find_operator<decltype(add_layer_norm)>("scramjet::add_layer_norm");
  return op.call(input, residual, normalized_shape, weight, bias, eps);
}

Pair rms_norm_backward(const at::Tensor& grad_output, const Optional& grad_sum,
                       const at::Tensor& input, c10::SymIntArrayRef normalized_shape,
                       const Optional& weight, std::optional<double> eps) {
  static const auto op = find_operator<decltype(rms_norm_backward)>("scramjet::rms_norm_backward");
  return op.call(grad_output, grad_sum, input, normalized_shape, weight, eps);
}

Triple layer_norm_backward(const at::Tensor& grad_output, const Optional& grad_sum,
                           const at::Tensor& input, c10::SymIntArrayRef normalized_shape,
                           const Optional& weight, const Optional& bias, double eps) {
  static const auto op =
      find_operator<decltype(layer_norm_backward)>("scramjet::layer_norm_backward");
  return op.call(grad_output, grad_sum, input, normalized_shape, weight, bias, eps);
}

}  // namespace scramjet::ops
