#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>

#include "ops/cpu_capability.h"
#include "ops/loss/loss_rows.h"

namespace scramjet::ops {

/// Rows [begin, end), whose targets are classes or ignored.
using LossKernel = void(const LossRows& rows, int64_t begin, int64_t end);

/// The kernel for logits of this dtype; nullptr for others than Float, Double, Half and BFloat16.
SCRAMJET_DECLARE_CPU_KERNEL(LossKernel* loss_rows(c10::ScalarType dtype))

}  // namespace scramjet::ops
