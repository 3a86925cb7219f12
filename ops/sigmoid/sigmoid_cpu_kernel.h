#pragma once

#include <c10/core/ScalarType.h>

#include "ops/cpu_capability.h"

namespace scramjet::ops {

/// The loops over (result, x) and (result, grad_output, output) of one floating dtype.
SCRAMJET_DECLARE_CPU_KERNEL(ElementwiseLoop* sigmoid_loop(c10::ScalarType dtype))
SCRAMJET_DECLARE_CPU_KERNEL(ElementwiseLoop* sigmoid_backward_loop(c10::ScalarType dtype))

}  // namespace scramjet::ops
