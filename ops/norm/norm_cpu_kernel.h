#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>

#include "ops/cpu_capability.h"
#include "ops/norm/norm_rows.h"

namespace scramjet::ops {

/// Rows [begin, end). The gradients of the parameters are added to.
using NormForward = void(const NormRows& rows, int64_t begin, int64_t end);
using NormBackward = void(const NormBackwardRows& rows, int64_t begin, int64_t end);

/// The kernels for inputs and parameters of these dtypes; nullptr for others than the dtype itself,
/// and Float parameters for Half and BFloat16.
SCRAMJET_DECLARE_CPU_KERNEL(NormForward* rms_norm_rows(c10::ScalarType dtype,
                                                       c10::ScalarType parameters))
SCRAMJET_DECLARE_CPU_KERNEL(NormForward* layer_norm_rows(c10::ScalarType dtype,
                                                         c10::ScalarType parameters))
SCRAMJET_DECLARE_CPU_KERNEL(NormBackward* rms_norm_backward_rows(c10::ScalarType dtype,
                                                                 c10::ScalarType parameters))
SCRAMJET_DECLARE_CPU_KERNEL(NormBackward* layer_norm_backward_rows(c10::ScalarType dtype,
                                                                   c10::ScalarType parameters))

}  // namespace scramjet::ops
