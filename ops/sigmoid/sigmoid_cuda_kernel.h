#pragma once

#include "ops/elementwise_launch.h"

namespace scramjet::ops {

/// Over (result, x) and (result, grad_output, output).
void launch_sigmoid(const ElementwiseLaunch& launch);
void launch_sigmoid_backward(const ElementwiseLaunch& launch);

}  // namespace scramjet::ops
