#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

#include "ops/elementwise_launch.h"

/// Runs an elementwise CUDA kernel over tensors.
///
///     auto [grad_gate, grad_up] = run_elementwise_pair(launch_foo_backward, {grad, gate, up});
namespace scramjet::ops {

/// A function of an operator's `.cu`.
using ElementwiseLauncher = void(const ElementwiseLaunch&);

/// Runs `launch` over a new tensor and `inputs` on their device's current stream, with a launch
/// check. The inputs are CUDA tensors of one device, floating dtype and shape; the result is laid
/// out as TensorIterator lays it out. NotImplementedError where more than
/// ElementwiseLaunch::kMaxDims dimensions do not merge.
at::Tensor run_elementwise(ElementwiseLauncher* launch, at::TensorList inputs);

/// The same for a kernel with two outputs.
std::tuple<at::Tensor, at::Tensor> run_elementwise_pair(ElementwiseLauncher* launch,
                                                        at::TensorList inputs);

}  // namespace scramjet::ops
