#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "ops/argument_checks.h"

/// One call of a loss, and what every kernel checks before it computes.
namespace scramjet::ops {

struct LossOptions {
  std::string_view reduction;
  int64_t ignore_index;
  double label_smoothing;
  double z_loss;
  std::optional<at::ScalarType> dtype;

  bool is_mean() const { return reduction == "mean"; }
  bool is_reduced() const { return reduction != "none"; }
};

/// The arguments of cross_entropy and its backward. Refers to the caller's tensors.
struct LossArguments {
  const char* op;
  const at::Tensor& logits;
  const at::Tensor& target;
  LossOptions options;

  at::ScalarType loss_dtype() const { return options.dtype.value_or(logits.scalar_type()); }
};

/// Those of linear_cross_entropy; `bias` may be undefined.
struct LinearLossArguments {
  const char* op;
  const at::Tensor& input;
  const at::Tensor& weight;
  const at::Tensor& target;
  const at::Tensor& bias;
  LossOptions options;

  at::ScalarType loss_dtype() const { return options.dtype.value_or(input.scalar_type()); }

  /// Whether the forward can know the gradients up to one factor. In half they would vanish
  /// without the loss scale, which is part of that factor.
  bool has_gradients_in_forward() const {
    return options.is_reduced() && input.scalar_type() != at::kHalf;
  }
};

struct LossOutputs {
  at::Tensor loss;
  at::Tensor logsumexp;
};

/// Of input, weight and bias, in this order.
using WantedGradients = std::array<bool, 3>;

/// Those that are not wanted have no elements.
struct LinearLossGradients {
  at::Tensor input;
  at::Tensor weight;
  at::Tensor bias;
};

struct LinearLossOutputs {
  LossOutputs losses;
  LinearLossGradients gradients;
};

inline const at::Tensor& no_tensor() {
  static const at::Tensor none;
  return none;
}

inline const at::Tensor& tensor_or_none(const std::optional<at::Tensor>& x) {
  return x ? *x : no_tensor();
}

inline at::ScalarType compute_dtype(at::ScalarType dtype) {
  return dtype == at::kDouble ? at::kDouble : at::kFloat;
}

inline void check_loss_options(const char* op, const LossOptions& options,
                               at::ScalarType logits_dtype) {
  TORCH_CHECK_VALUE(
      options.reduction == "none" || options.reduction == "mean" || options.reduction == "sum", op,
      ": argument 'reduction' is '", options.reduction, "'; expected 'none', 'mean' or 'sum'");
  TORCH_CHECK_VALUE(options.label_smoothing >= 0 && options.label_smoothing <= 1, op,
                    ": argument 'label_smoothing' is ", options.label_smoothing,
                    "; expected 0 to 1");
  if (!options.dtype) return;
  const bool is_wider = *options.dtype == at::kFloat && logits_dtype != at::kDouble;
  TORCH_CHECK_TYPE(*options.dtype == logits_dtype || is_wider, op, ": argument 'dtype' is ",
                   *options.dtype, "; expected that of the logits, ", logits_dtype,
                   ", or Float where that is Half or BFloat16");
}

inline void check_target(const char* op, const at::Tensor& target, const char* argument,
                         const at::Tensor& rows) {
  TORCH_CHECK_TYPE(target.scalar_type() == at::kLong, op, ": argument 'target' has dtype ",
                   target.scalar_type(),
                   "; expected Long class indices (torch.nn.functional.cross_entropy takes class "
                   "probabilities)");
  TORCH_CHECK_VALUE(target.dim() == 1 && target.sym_size(0) == rows.sym_size(0), op,
                    ": argument 'target' has shape ", target.sym_sizes(),
                    "; expected a class for each row of '", argument, "', whose shape is ",
                    rows.sym_sizes());
  TORCH_CHECK_VALUE(target.device() == rows.device(), op, ": argument 'target' is on ",
                    target.device(), "; expected the device of '", argument, "', ", rows.device());
}

inline void check_loss(const LossArguments& call) {
  const auto& [op, logits, target, options] = call;
  check_floating(op, "logits", logits);
  TORCH_CHECK_VALUE(logits.dim() == 2, op, ": argument 'logits' has shape ", logits.sym_sizes(),
                    "; expected [N, C]: where the classes are last, give logits.flatten(0, -2) and "
                    "target.flatten(), where they are dimension 1, logits.movedim(1, -1) so "
                    "flattened");
  check_target(op, target, "logits", logits);
  check_loss_options(op, options, logits.scalar_type());
}

inline void check_linear_loss(const LinearLossArguments& call) {
  const char* op = call.op;
  const at::Tensor& input = call.input;
  const at::Tensor& weight = call.weight;
  const at::Tensor& bias = call.bias;
  check_floating(op, "input", input);
  const auto check_operand = [&](const char* argument, const at::Tensor& x) {
    TORCH_CHECK_TYPE(x.scalar_type() == input.scalar_type(), op, ": argument '", argument,
                     "' has dtype ", x.scalar_type(), "; expected that of 'input', ",
                     input.scalar_type());
    TORCH_CHECK_VALUE(x.device() == input.device(), op, ": argument '", argument, "' is on ",
                      x.device(), "; expected the device of 'input', ", input.device());
  };
  TORCH_CHECK_VALUE(input.dim() == 2, op, ": argument 'input' has shape ", input.sym_sizes(),
                    "; expected [N, D]: give input.flatten(0, -2) and target.flatten()");
  check_operand("weight", weight);
  TORCH_CHECK_VALUE(weight.dim() == 2 && weight.sym_size(1) == input.sym_size(1), op,
                    ": argument 'weight' has shape ", weight.sym_sizes(),
                    "; expected [C, D] for an 'input' of shape ", input.sym_sizes());
  if (bias.defined()) {
    check_operand("bias", bias);
    TORCH_CHECK_VALUE(bias.dim() == 1 && bias.sym_size(0) == weight.sym_size(0), op,
                      ": argument 'bias' has shape ", bias.sym_sizes(),
                      "; expected [C] for a 'weight' of shape ", weight.sym_sizes());
  }
  check_target(op, call.target, "input", input);
  check_loss_options(op, call.options, input.scalar_type());
}

inline void check_loss_gradient(const char* op, const LossOptions& options,
                                const at::Tensor& grad_output, const at::Tensor& target,
                                const at::Tensor& logsumexp) {
  check_floating(op, "grad_output", grad_output);
  TORCH_CHECK_VALUE(options.is_reduced() ? grad_output.dim() == 0
                                         : grad_output.sym_sizes().equals(target.sym_sizes()),
                    op, ": argument 'grad_output' has shape ", grad_output.sym_sizes(),
                    "; expected that of the loss");
  TORCH_CHECK_TYPE(logsumexp.scalar_type() == at::kDouble, op, ": argument 'logsumexp' has dtype ",
                   logsumexp.scalar_type(), "; expected Double");
  TORCH_CHECK_VALUE(logsumexp.sym_sizes().equals(target.sym_sizes()), op,
                    ": argument 'logsumexp' has shape ", logsumexp.sym_sizes(),
                    "; expected that of 'target', ", target.sym_sizes());
}

}  // namespace scramjet::ops
