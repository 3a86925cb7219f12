#pragma once

#include <c10/core/ScalarType.h>

#include "ops/cpu_capability.h"

namespace scramjet::ops {

/// The loops over (result, gate, up) of one floating dtype.
SCRAMJET_DECLARE_CPU_KERNEL(ElementwiseLoop* silu_mul_loop(c10::ScalarType dtype))
SCRAMJET_DECLARE_CPU_KERNEL(ElementwiseLoop* gelu_mul_loop(c10::ScalarType dtype))
SCRAMJET_DECLARE_CPU_KERNEL(ElementwiseLoop* gelu_tanh_mul_loop(c10::ScalarType dtype))

/// The loops over (grad_gate, grad_up, grad_output, gate, up) of one floating dtype.
SCRAMJET_DECLARE_CPU_KERNEL(ElementwiseLoop* silu_mul_backward_loop(c10::ScalarType dtype))
SCRAMJET_DECLARE_CPU_KERNEL(ElementwiseLoop* gelu_mul_backward_loop(c10::ScalarType dtype))
SCRAMJET_DECLARE_CPU_KERNEL(ElementwiseLoop* gelu_tanh_mul_backward_loop(c10::ScalarType dtype))

}  // namespace scramjet::ops
