#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "ops/rope/rope_arguments.h"

namespace scramjet::ops {

/// The kernel of one dispatch key from a function of RopeArguments:
///
///     TORCH_LIBRARY_IMPL(scramjet, Meta, m) { m.impl("rope", rope_kernel<rope_meta>); }
template <at::Tensor kFunction(const RopeArguments& call)>
at::Tensor rope_kernel(const at::Tensor& input, const at::Tensor& cos, const at::Tensor& sin,
                       const std::optional<at::Tensor>& positions, bool interleaved,
                       int64_t sequence_dim, bool inverse) {
  const at::Tensor none;
  return kFunction(
      {input, cos, sin, positions ? *positions : none, interleaved, sequence_dim, inverse});
}

}  // namespace scramjet::ops
