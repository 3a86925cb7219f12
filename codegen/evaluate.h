#pragma once

// The op-by-op path: a kernel computed by ATen, one dispatcher call a node, exactly as eager would.
// It serves autograd, autocast, other devices, dtypes and layouts that are not compiled, and is the
// tests' oracle.

#include <ATen/core/Tensor.h>

#include <vector>

#include "codegen/kernel.h"

namespace scramjet::codegen {

// Raises what eager raises. Each intermediate is freed after its last use.
std::vector<at::Tensor> evaluate(const Kernel& kernel, at::ArrayRef<at::Tensor> inputs);

}  // namespace scramjet::codegen
