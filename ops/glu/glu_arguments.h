#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <string_view>

#include "ops/argument_checks.h"

/// What every kernel of the family checks before it computes.
namespace scramjet::ops {

inline void check_glu(const char* op, const at::Tensor& gate, const at::Tensor& up) {
  check_floating(op, "gate", gate);
  check_alike(op, "up", up, "gate", gate);
}

inline void check_glu_backward(const char* op, const at::Tensor& grad_output,
                               const at::Tensor& gate, const at::Tensor& up) {
  check_glu(op, gate, up);
  check_alike(op, "grad_output", grad_output, "gate", gate);
}

/// Whether gelu is the one by tanh.
inline bool is_tanh(const char* op, std::string_view approximate) {
  TORCH_CHECK_VALUE(approximate == "none" || approximate == "tanh", op,
                    ": argument 'approximate' is '", approximate, "'; expected 'none' or 'tanh'");
  return approximate == "tanh";
}

}  // namespace scramjet::ops
