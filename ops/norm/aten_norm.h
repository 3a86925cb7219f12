#pragma once

#include <ATen/core/Tensor.h>

#include "ops/norm/norm_arguments.h"

/// The norms by ATen's operators, which torch knows to differentiate and to map: what stands in for
/// the fused kernels for second derivatives, in forward mode and inside functorch's transforms.
namespace scramjet::ops {

NormOutputs aten_norm(const NormArguments& call);

/// `grad_sum` may be undefined.
NormGradients aten_norm_backward(const NormArguments& call, const at::Tensor& grad_output,
                                 const at::Tensor& grad_sum);

}  // namespace scramjet::ops
