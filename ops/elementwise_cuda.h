#pragma once

#include <ATen/TensorIterator.h>

#include "ops/elementwise_launch.h"

namespace scramjet::ops {

/// Runs `launch`, a function of an operator's `.cu`, over the operands of a built TensorIterator
/// of CUDA tensors of one floating dtype: on its device's current stream, with a launch check.
/// NotImplementedError where more than ElementwiseLaunch::kMaxDims dimensions do not merge.
void run_elementwise(at::TensorIteratorBase& iter, void (*launch)(const ElementwiseLaunch&));

}  // namespace scramjet::ops
