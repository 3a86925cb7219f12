#pragma once

#include <ATen/ExpandUtils.h>
#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <optional>

#include "ops/argument_checks.h"

/// One call of softmax or of its backward, and what every kernel checks before it computes.
namespace scramjet::ops {

/// `x` is the input, or the output in a backward; without a mask that is an undefined tensor.
/// Refers to the caller's.
struct SoftmaxArguments {
  const char* op;
  const char* x_name;
  const at::Tensor& x;
  const at::Tensor& mask;
  double scale;
  bool causal;

  bool has_bool_mask() const { return mask.defined() && mask.scalar_type() == at::kBool; }
  bool has_added_mask() const { return mask.defined() && mask.scalar_type() != at::kBool; }

  /// The type that the dtype of `x` computes in.
  at::ScalarType compute_dtype() const {
    return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  }
};

inline const at::Tensor& mask_or_none(const std::optional<at::Tensor>& mask) {
  static const at::Tensor none;
  return mask ? *mask : none;
}

inline void check_softmax_mask(const SoftmaxArguments& call) {
  const at::ScalarType dtype = call.x.scalar_type();
  const at::ScalarType given = call.mask.scalar_type();
  TORCH_CHECK_TYPE(
      given == at::kBool || given == dtype || (given == at::kFloat && dtype != at::kDouble),
      call.op, ": argument 'mask' has dtype ", given, "; expected Bool, that of '", call.x_name,
      "', ", dtype, ", or Float where that is Half or BFloat16");
  TORCH_CHECK_VALUE(at::is_expandable_to(call.mask.sym_sizes(), call.x.sym_sizes()), call.op,
                    ": argument 'mask' has shape ", call.mask.sym_sizes(),
                    "; expected one that can be broadcast to that of '", call.x_name, "', ",
                    call.x.sym_sizes());
  TORCH_CHECK_VALUE(call.mask.device() == call.x.device(), call.op, ": argument 'mask' is on ",
                    call.mask.device(), "; expected the device of '", call.x_name, "', ",
                    call.x.device());
}

inline void check_softmax(const SoftmaxArguments& call) {
  check_floating(call.op, call.x_name, call.x);
  const int64_t least = call.causal ? 2 : 1;
  TORCH_CHECK_VALUE(call.x.dim() >= least, call.op, ": argument '", call.x_name, "' has shape ",
                    call.x.sym_sizes(), "; expected at least ", least, " dimension",
                    call.causal ? "s with 'causal'" : "");
  if (call.mask.defined()) check_softmax_mask(call);
}

inline void check_softmax_backward(const SoftmaxArguments& call, const at::Tensor& grad_output) {
  check_softmax(call);
  TORCH_CHECK_TYPE(!call.has_added_mask(), call.op, ": argument 'mask' has dtype ",
                   call.mask.scalar_type(), "; expected Bool, or none where the mask was added");
  check_alike(call.op, "grad_output", grad_output, call.x_name, call.x);
}

}  // namespace scramjet::ops
