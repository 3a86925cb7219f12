#pragma once

#include "ops/attention/attention_arguments.h"

/// The formulas in ATen's operators, with the matrix of scores: differentiable any number of times,
/// in forward mode and under functorch's transforms, and with respect to the mask too.
namespace scramjet::ops {

AttentionOutputs aten_attention(const AttentionArguments& call);

AttentionGradientOutputs aten_attention_backward(const AttentionArguments& call,
                                                 const AttentionResults& results);

}  // namespace scramjet::ops
