#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/ScalarType.h>

#include "ops/argument_checks.h"

/// What every kernel of the family checks and infers before it computes.
namespace scramjet::ops {

/// Checks the dtype of sigmoid's argument and returns that of its result.
inline at::ScalarType sigmoid_result_dtype(const at::Tensor& x) {
  check_real("scramjet::sigmoid", "x", x);
  return at::isFloatingType(x.scalar_type()) ? x.scalar_type()
                                             : c10::get_default_dtype_as_scalartype();
}

/// Checks the dtypes, shapes and devices of sigmoid_backward's arguments.
inline void check_sigmoid_backward(const at::Tensor& grad_output, const at::Tensor& output) {
  constexpr const char* kOp = "scramjet::sigmoid_backward";
  check_floating(kOp, "output", output);
  check_alike(kOp, "grad_output", grad_output, "output", output);
}

}  // namespace scramjet::ops
