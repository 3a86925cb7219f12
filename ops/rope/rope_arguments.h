#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include "ops/argument_checks.h"

/// One call of rope, and what every kernel checks before it computes.
namespace scramjet::ops {

/// Without positions that is an undefined tensor. Refers to the caller's.
struct RopeArguments {
  const at::Tensor& input;
  const at::Tensor& cos;
  const at::Tensor& sin;
  const at::Tensor& positions;
  bool interleaved;
  int64_t sequence_dim;
  bool inverse;

  static constexpr const char* op = "scramjet::rope";

  /// `sequence_dim` counted from the front.
  int64_t sequence_axis() const {
    return sequence_dim < 0 ? sequence_dim + input.dim() : sequence_dim;
  }

  /// The type that the input's dtype computes in.
  at::ScalarType compute_dtype() const {
    return input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  }
};

inline void check_rope_tables(const RopeArguments& call) {
  const at::Tensor& cos = call.cos;
  const at::ScalarType dtype = call.input.scalar_type();
  const bool is_wide = cos.scalar_type() == at::kFloat && dtype != at::kDouble;
  TORCH_CHECK_TYPE(cos.scalar_type() == dtype || is_wide, call.op, ": argument 'cos' has dtype ",
                   cos.scalar_type(), "; expected that of 'input', ", dtype,
                   ", or Float where that is Half or BFloat16");
  TORCH_CHECK_VALUE(cos.dim() == 2, call.op, ": argument 'cos' has shape ", cos.sym_sizes(),
                    "; expected [max_positions, rotary_dim / 2]");
  TORCH_CHECK_VALUE(cos.sym_size(1) * 2 <= call.input.sym_size(-1), call.op,
                    ": argument 'cos' has shape ", cos.sym_sizes(),
                    "; expected at most half as many columns as the last dimension of 'input', ",
                    call.input.sym_size(-1));
  TORCH_CHECK_VALUE(cos.device() == call.input.device(), call.op, ": argument 'cos' is on ",
                    cos.device(), "; expected the device of 'input', ", call.input.device());
  check_alike(call.op, "sin", call.sin, "cos", cos);
}

inline void check_rope_positions(const RopeArguments& call) {
  const at::Tensor& positions = call.positions;
  const c10::SymInt sequence = call.input.sym_size(call.sequence_axis());
  if (!positions.defined()) {
    TORCH_CHECK_VALUE(sequence <= call.cos.sym_size(0), call.op, ": argument 'cos' has shape ",
                      call.cos.sym_sizes(), "; expected a row for each of the ", sequence,
                      " positions of 'input'");
    return;
  }
  TORCH_CHECK_TYPE(positions.scalar_type() == at::kLong || positions.scalar_type() == at::kInt,
                   call.op, ": argument 'positions' has dtype ", positions.scalar_type(),
                   "; expected Long or Int");
  const bool is_shared = positions.dim() == 1 && positions.sym_size(0) == sequence;
  const bool is_of_batch = positions.dim() == 2 && call.sequence_axis() > 0 &&
                           positions.sym_size(0) == call.input.sym_size(0) &&
                           positions.sym_size(1) == sequence;
  TORCH_CHECK_VALUE(is_shared || is_of_batch, call.op, ": argument 'positions' has shape ",
                    positions.sym_sizes(),
                    "; expected [sequence] or [batch, sequence] of 'input', ",
                    call.input.sym_sizes(), ", whose sequence is dimension ", call.sequence_axis());
  TORCH_CHECK_VALUE(positions.device() == call.input.device(), call.op,
                    ": argument 'positions' is on ", positions.device(),
                    "; expected the device of 'input', ", call.input.device());
}

inline void check_rope(const RopeArguments& call) {
  check_floating(call.op, "input", call.input);
  TORCH_CHECK_VALUE(call.input.dim() >= 2, call.op, ": argument 'input' has shape ",
                    call.input.sym_sizes(), "; expected at least 2 dimensions");
  const int64_t axis = call.sequence_axis();
  TORCH_CHECK_VALUE(axis >= 0 && axis < call.input.dim() - 1, call.op,
                    ": argument 'sequence_dim' is ", call.sequence_dim,
                    "; expected a dimension of 'input', ", call.input.sym_sizes(),
                    ", but the last");
  check_rope_tables(call);
  check_rope_positions(call);
}

}  // namespace scramjet::ops
