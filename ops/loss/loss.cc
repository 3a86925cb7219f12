#include "ops/loss/loss.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "ops/argument_checks.h"
#include "ops/loss/loss_kernels.h"

namespace scramjet::ops {
namespace {

using Optional = std::optional<at::Tensor>;
using Triple = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

bool is_supported(const at::Tensor& x) {
  return x.layout() == at::kStrided && (x.is_cpu() || x.is_cuda());
}

void check_supported(const char* op, const char* argument, const at::Tensor& x) {
  if (x.defined() && !is_supported(x)) fail_unsupported(op, argument, x);
}

LossOutputs unsupported_loss(const LossArguments& call) {
  check_supported(call.op, "logits", call.logits);
  check_supported(call.op, "target", call.target);
  fail_unsupported(call.op, "logits", call.logits);
}

at::Tensor unsupported_loss_backward(const LossArguments& call, const at::Tensor& grad_output,
                                     const at::Tensor& logsumexp) {
  check_supported(call.op, "grad_output", grad_output);
  check_supported(call.op, "logsumexp", logsumexp);
  return unsupported_loss(call).loss;
}

LinearLossOutputs unsupported_linear_loss(const LinearLossArguments& call,
                                          const WantedGradients& /*wanted*/) {
  check_supported(call.op, "input", call.input);
  check_supported(call.op, "weight", call.weight);
  check_supported(call.op, "target", call.target);
  check_supported(call.op, "bias", call.bias);
  fail_unsupported(call.op, "input", call.input);
}

LinearLossGradients unsupported_linear_loss_backward(const LinearLossArguments& call,
                                                     const at::Tensor& grad_output,
                                                     const at::Tensor& logsumexp,
                                                     const WantedGradients& wanted) {
  check_supported(call.op, "grad_output", grad_output);
  check_supported(call.op, "logsumexp", logsumexp);
  return unsupported_linear_loss(call, wanted).gradients;
}

template <typename Signature>
c10::TypedOperatorHandle<Signature> find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(scramjet, m) {
  const std::vector<at::Tag> tags = {at::Tag::pt2_compliant_tag};
  m.def(
      "cross_entropy(Tensor logits, Tensor target, *, str reduction='mean', "
      "int ignore_index=-100, float label_smoothing=0., float z_loss=0., "
      "ScalarType? dtype=None) -> Tensor",
      tags);
  m.def(
      "cross_entropy_forward(Tensor logits, Tensor target, *, str reduction='mean', "
      "int ignore_index=-100, float label_smoothing=0., float z_loss=0., "
      "ScalarType? dtype=None) -> (Tensor loss, Tensor logsumexp)",
      tags);
  m.def(
      "cross_entropy_backward(Tensor grad_output, Tensor logits, Tensor target, "
      "Tensor logsumexp, *, str reduction='mean', int ignore_index=-100, "
      "float label_smoothing=0., float z_loss=0.) -> Tensor",
      tags);
  m.def(
      "linear_cross_entropy(Tensor input, Tensor weight, Tensor target, Tensor? bias=None, *, "
      "str reduction='mean', int ignore_index=-100, float label_smoothing=0., float z_loss=0., "
      "ScalarType? dtype=None) -> Tensor",
      tags);
  m.def(
      "linear_cross_entropy_forward(Tensor input, Tensor weight, Tensor target, "
      "Tensor? bias=None, *, str reduction='mean', int ignore_index=-100, "
      "float label_smoothing=0., float z_loss=0., ScalarType? dtype=None, bool[3] gradients) -> "
      "(Tensor loss, Tensor logsumexp, Tensor grad_input, Tensor grad_weight, Tensor grad_bias)",
      tags);
  m.def(
      "linear_cross_entropy_backward(Tensor grad_output, Tensor input, Tensor weight, "
      "Tensor target, Tensor logsumexp, Tensor? bias=None, *, str reduction='mean', "
      "int ignore_index=-100, float label_smoothing=0., float z_loss=0., bool[3] gradients) -> "
      "(Tensor grad_input, Tensor grad_weight, Tensor grad_bias)",
      tags);
}

// Backends without a kernel of their own come here, for a clearer error than the dispatcher's.
TORCH_LIBRARY_IMPL(scramjet, CompositeExplicitAutograd, m) {
  LossKernels<unsupported_loss, unsupported_loss_backward, unsupported_linear_loss,
              unsupported_linear_loss_backward>::add_to(m);
}

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& target,
                         std::string_view reduction, int64_t ignore_index, double label_smoothing,
                         double z_loss, std::optional<at::ScalarType> dtype) {
  static const auto op = find_operator<decltype(cross_entropy)>("scramjet::cross_entropy");
  return op.call(logits, target, reduction, ignore_index, label_smoothing, z_loss, dtype);
}

std::tuple<at::Tensor, at::Tensor> cross_entropy_forward(const at::Tensor& logits,
                                                         const at::Tensor& target,
                                                         std::string_view reduction,
                                                         int64_t ignore_index,
                                                         double label_smoothing, double z_loss,
                                                         std::optional<at::ScalarType> dtype) {
  static const auto op =
      find_operator<decltype(cross_entropy_forward)>("scramjet::cross_entropy_forward");
  return op.call(logits, target, reduction, ignore_index, label_smoothing, z_loss, dtype);
}

at::Tensor cross_entropy_backward(const at::Tensor& grad_output, const at::Tensor& logits,
                                  const at::Tensor& target, const at::Tensor& logsumexp,
                                  std::string_view reduction, int64_t ignore_index,
                                  double label_smoothing, double z_loss) {
  static const auto op =
      find_operator<decltype(cross_entropy_backward)>("scramjet::cross_entropy_backward");
  return op.call(grad_output, logits, target, logsumexp, reduction, ignore_index, label_smoothing,
                 z_loss);
}

at::Tensor linear_cross_entropy(const at::Tensor& input, const at::Tensor& weight,
                                const at::Tensor& target, const Optional& bias,
                                std::string_view reduction, int64_t ignore_index,
                                double label_smoothing, double z_loss,
                                std::optional<at::ScalarType> dtype) {
  static const auto op =
      find_operator<decltype(linear_cross_entropy)>("scramjet::linear_cross_entropy");
  return op.call(input, weight, target, bias, reduction, ignore_index, label_smoothing, z_loss,
                 dtype);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> linear_cross_entropy_forward(
    const at::Tensor& input, const at::Tensor& weight, const at::Tensor& target,
    const Optional& bias, std::string_view reduction, int64_t ignore_index, double label_smoothing,
    double z_loss, std::optional<at::ScalarType> dtype, std::array<bool, 3> gradients) {
  static const auto op = find_operator<decltype(linear_cross_entropy_forward)>(
      "scramjet::linear_cross_entropy_forward");
  return op.call(input, weight, target, bias, reduction, ignore_index, label_smoothing, z_loss,
                 dtype, gradients);
}

Triple linear_cross_entropy_backward(const at::Tensor& grad_output, const at::Tensor& input,
                                     const at::Tensor& weight, const at::Tensor& target,
                                     const at::Tensor& logsumexp, const Optional& bias,
                                     std::string_view reduction, int64_t ignore_index,
                                     double label_smoothing, double z_loss,
                                     std::array<bool, 3> gradients) {
  static const auto op = find_operator<decltype(linear_cross_entropy_backward)>(
      "scramjet::linear_cross_entropy_backward");
  return op.call(grad_output, input, weight, target, logsumexp, bias, reduction, ignore_index,
                 label_smoothing, z_loss, gradients);
}

}  // namespace scramjet::ops
