#pragma once

// The sizes and strides that eager would give a kernel's outputs.

#include <ATen/core/Tensor.h>

#include <vector>

#include "codegen/kernel.h"
#include "codegen/lower.h"

namespace scramjet::runtime {

// Follows each op's operands in turn, on tensors without data (device meta), because strides depend
// on the order in which operands meet, and on which of them eager casts first. `dtypes`: by node.
// Inputs must broadcast.
std::vector<at::Tensor> eager_layout(const codegen::Kernel& kernel,
                                     const std::vector<at::Tensor>& inputs,
                                     const std::vector<codegen::NodeDtypes>& dtypes);

}  // namespace scramjet::runtime
