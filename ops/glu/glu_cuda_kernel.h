#pragma once

#include "ops/elementwise_launch.h"

namespace scramjet::ops {

/// Over (result, gate, up).
void launch_silu_mul(const ElementwiseLaunch& launch);
void launch_gelu_mul(const ElementwiseLaunch& launch);
void launch_gelu_tanh_mul(const ElementwiseLaunch& launch);

/// Over (grad_gate, grad_up, grad_output, gate, up).
void launch_silu_mul_backward(const ElementwiseLaunch& launch);
void launch_gelu_mul_backward(const ElementwiseLaunch& launch);
void launch_gelu_tanh_mul_backward(const ElementwiseLaunch& launch);

}  // namespace scramjet::ops
