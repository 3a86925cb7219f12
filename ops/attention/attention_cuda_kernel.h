#pragma once

#include "ops/attention/attention_problem.h"
#include "ops/cuda_dtype.h"

namespace scramjet::ops {

/// For at least one query. `stream`: a cudaStream_t of the current device.
void launch_attention(CudaDtype dtype, const AttentionProblem& problem, void* stream);

/// For at least one query and one key.
void launch_attention_backward(CudaDtype dtype, const AttentionProblem& problem,
                               const AttentionGradients& gradients, void* stream);

}  // namespace scramjet::ops
