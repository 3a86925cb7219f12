#pragma once

#include "ops/softmax/softmax.h"
#include "ops/softmax/softmax_arguments.h"

/// From a kernel of one dispatch key to those below it.
namespace scramjet::ops {

inline at::Tensor call_softmax(const SoftmaxArguments& call) {
  return ops::softmax(call.x, call.mask, call.scale, call.causal);
}

inline at::Tensor call_softmax_backward(const SoftmaxArguments& call,
                                        const at::Tensor& grad_output) {
  return ops::softmax_backward(grad_output, call.x, call.mask, call.scale, call.causal);
}

}  // namespace scramjet::ops
