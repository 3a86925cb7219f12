#pragma once

#include <ATen/core/Tensor.h>

#include "ops/softmax/softmax_arguments.h"

/// softmax by ATen's operators, which torch knows to differentiate and to map: what stands in for
/// the fused kernels for second derivatives, in forward mode and inside functorch's transforms.
namespace scramjet::ops {

at::Tensor aten_softmax(const SoftmaxArguments& call);

at::Tensor aten_softmax_backward(const SoftmaxArguments& call, const at::Tensor& grad_output);

}  // namespace scramjet::ops
