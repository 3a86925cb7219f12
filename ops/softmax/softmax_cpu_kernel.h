#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>

#include "ops/cpu_capability.h"
#include "ops/softmax/softmax_rows.h"

namespace scramjet::ops {

/// Rows [begin, end). `scratch`: room for one row in the type that the dtype computes in.
using SoftmaxForward = void(const SoftmaxRows& rows, char* scratch, int64_t begin, int64_t end);
using SoftmaxBackward = void(const SoftmaxBackwardRows& rows, int64_t begin, int64_t end);

/// The kernels for an input of this dtype; nullptr for a mask kFloat beside Float or Double.
SCRAMJET_DECLARE_CPU_KERNEL(SoftmaxForward* softmax_rows(c10::ScalarType dtype, MaskKind mask))
SCRAMJET_DECLARE_CPU_KERNEL(SoftmaxBackward* softmax_backward_rows(c10::ScalarType dtype))

}  // namespace scramjet::ops
