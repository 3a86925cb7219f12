#pragma once

#include "ops/cuda_dtype.h"
#include "ops/loss/loss_rows.h"

namespace scramjet::ops {

/// Over `count` > 0 rows of more than 0 columns. `stream`: a cudaStream_t of the current device.
void launch_loss_rows(CudaDtype dtype, const LossRows& rows, int64_t count, void* stream);

}  // namespace scramjet::ops
