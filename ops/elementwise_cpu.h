#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

#include "ops/cpu_capability.h"

/// Runs an elementwise CPU kernel over tensors.
///
///     auto [grad_gate, grad_up] = run_elementwise_pair(loop, {grad_output, gate, up});
namespace scramjet::ops {

/// Calls `loop` over a new tensor and `inputs` on ATen's threads. The inputs are CPU tensors of one
/// floating dtype and shape. The outputs are new tensors, laid out as TensorIterator lays them out,
/// large ones in memory that is kept for reuse (runtime/output_memory.h).
at::Tensor run_elementwise(ElementwiseLoop* loop, at::TensorList inputs);

/// The same for a kernel with two outputs.
std::tuple<at::Tensor, at::Tensor> run_elementwise_pair(ElementwiseLoop* loop,
                                                        at::TensorList inputs);

}  // namespace scramjet::ops
