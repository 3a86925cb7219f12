#pragma once

// scramjet::linear: aten::linear, with a large result in output memory.

#include <ATen/core/Tensor.h>

#include <optional>

namespace scramjet::runtime {

// input · weightᵀ + bias, as at::linear computes it. A result of some MB that at::linear would put
// into fresh pages goes into blocks that are kept for reuse (output_memory.h), which the group that
// reads it may write over.
at::Tensor linear(const at::Tensor& input, const at::Tensor& weight,
                  const std::optional<at::Tensor>& bias);

}  // namespace scramjet::runtime
