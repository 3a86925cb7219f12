#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/SymIntArrayRef.h>
#include <c10/util/Exception.h>

#include <limits>
#include <optional>

#include "ops/argument_checks.h"

/// One call of a norm, whichever it is, and what every kernel checks before it computes.
namespace scramjet::ops {

enum class Norm { kRms, kLayer };

inline const at::Tensor& no_tensor() {
  static const at::Tensor none;
  return none;
}

inline const at::Tensor& tensor_or_none(const std::optional<at::Tensor>& x) {
  return x ? *x : no_tensor();
}

/// The arguments of one of the four norms, and of their backwards (`input` is what was normalized);
/// an undefined tensor is one that is not there. Refers to the caller's.
struct NormArguments {
  const char* op;
  Norm norm;
  const at::Tensor& input;
  const at::Tensor& residual;
  c10::SymIntArrayRef normalized_shape;
  const at::Tensor& weight;
  const at::Tensor& bias;
  std::optional<double> eps;

  /// How many dimensions come before the normalized ones.
  int64_t outer_dims() const { return input.dim() - static_cast<int64_t>(normalized_shape.size()); }

  /// That of the parameters, or of the input where there is none.
  at::ScalarType parameter_dtype() const {
    return (weight.defined() ? weight : bias.defined() ? bias : input).scalar_type();
  }

  /// The type that the input's dtype computes in.
  at::ScalarType compute_dtype() const {
    return input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  }

  double eps_value() const {
    if (eps) return *eps;
    return compute_dtype() == at::kDouble ? std::numeric_limits<double>::epsilon()
                                          : std::numeric_limits<float>::epsilon();
  }
};

struct NormOutputs {
  at::Tensor output;
  at::Tensor sum;  // Where there is a residual.
};

/// Those of parameters that are not there have no elements.
struct NormGradients {
  at::Tensor input;
  at::Tensor weight;
  at::Tensor bias;
};

inline void check_norm_parameter(const NormArguments& call, const char* argument,
                                 const at::Tensor& x) {
  const at::ScalarType dtype = call.input.scalar_type();
  const bool is_wide_parameter = x.scalar_type() == at::kFloat && dtype != at::kDouble;
  TORCH_CHECK_TYPE(x.scalar_type() == dtype || is_wide_parameter, call.op, ": argument '", argument,
                   "' has dtype ", x.scalar_type(), "; expected that of 'input', ", dtype,
                   ", or Float where that is Half or BFloat16");
  TORCH_CHECK_VALUE(x.sym_sizes().equals(call.normalized_shape), call.op, ": argument '", argument,
                    "' has shape ", x.sym_sizes(), "; expected 'normalized_shape', ",
                    call.normalized_shape);
  TORCH_CHECK_VALUE(x.device() == call.input.device(), call.op, ": argument '", argument,
                    "' is on ", x.device(), "; expected the device of 'input', ",
                    call.input.device());
}

inline void check_norm(const NormArguments& call) {
  check_floating(call.op, "input", call.input);
  if (call.residual.defined()) check_alike(call.op, "residual", call.residual, "input", call.input);
  TORCH_CHECK_VALUE(!call.normalized_shape.empty(), call.op,
                    ": argument 'normalized_shape' is []; expected at least one dimension");
  TORCH_CHECK_VALUE(
      call.outer_dims() >= 0 &&
          call.input.sym_sizes().slice(call.outer_dims()).equals(call.normalized_shape),
      call.op, ": argument 'normalized_shape' is ", call.normalized_shape,
      "; expected the last dimensions of 'input', whose shape is ", call.input.sym_sizes());
  if (call.weight.defined()) check_norm_parameter(call, "weight", call.weight);
  if (call.bias.defined()) check_norm_parameter(call, "bias", call.bias);
  if (call.weight.defined() && call.bias.defined()) {
    check_alike(call.op, "bias", call.bias, "weight", call.weight);
  }
}

inline void check_norm_backward(const NormArguments& call, const at::Tensor& grad_output,
                                const at::Tensor& grad_sum) {
  check_norm(call);
  check_alike(call.op, "grad_output", grad_output, "input", call.input);
  if (grad_sum.defined()) check_alike(call.op, "grad_sum", grad_sum, "input", call.input);
}

}  // namespace scramjet::ops
