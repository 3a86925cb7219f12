#pragma once

// Which nodes a kernel can take, and why not.

#include <torch/csrc/jit/ir/ir.h>

#include <optional>
#include <string>

#include "codegen/pointwise_ops.h"

namespace scramjet::passes {

// The op-table row for a node that fits it: every tensor argument is a Tensor (or a constant None),
// all else is constant. Otherwise nullptr, with the reason.
const codegen::PointwiseOp* pointwise_row(const torch::jit::Node* node, std::string* reason);

// Does the dispatcher mark the node's operator as pointwise?
bool is_tagged_pointwise(const torch::jit::Node* node);

}  // namespace scramjet::passes
