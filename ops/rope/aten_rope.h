#pragma once

#include <ATen/core/Tensor.h>

#include "ops/rope/rope_arguments.h"

/// rope by ATen's operators, which torch knows to differentiate and to map: what stands in for the
/// fused kernel in forward mode, inside functorch's transforms and for tables with gradients.
namespace scramjet::ops {

at::Tensor aten_rope(const RopeArguments& call);

}  // namespace scramjet::ops
