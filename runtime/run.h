#pragma once

// scramjet::run: executes a fused kernel on tensors.

#include <ATen/core/Tensor.h>

#include <vector>

#include "runtime/kernel_object.h"

namespace scramjet::runtime {

// The kernel's outputs, as eager would give them: values, dtypes, sizes, strides. Runs machine code
// where the inputs allow it; for the rest (autograd, autocast, other devices, dtypes that are not
// compiled, errors that eager raises) it goes op by op through ATen.
//
// `inputs` is consumed: an input whose last reference it holds may become an output's memory.
std::vector<at::Tensor> run(KernelObject& kernel, std::vector<at::Tensor> inputs);

// Why `run` would go op by op for these inputs, or an empty string: for reports and tests.
std::string why_op_by_op(KernelObject& kernel, const std::vector<at::Tensor>& inputs);

}  // namespace scramjet::runtime
