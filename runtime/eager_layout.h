#pragma once

// The sizes and strides that eager would give a kernel's outputs.

#include <ATen/core/Tensor.h>

#include <vector>

#include "codegen/kernel.h"

namespace scramjet::runtime {

// Follows each op's operands in turn, on tensors without data (device meta; their dtype means
// nothing), because strides depend on the order in which operands meet. Inputs must broadcast.
std::vector<at::Tensor> eager_layout(const codegen::Kernel& kernel,
                                     const std::vector<at::Tensor>& inputs);

}  // namespace scramjet::runtime
