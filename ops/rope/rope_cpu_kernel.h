#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>

#include "ops/cpu_capability.h"
#include "ops/rope/rope_rows.h"

namespace scramjet::ops {

/// Rows [begin, end).
using RopeForward = void(const RopeRows& rows, int64_t begin, int64_t end);

/// The kernel for an input and tables of these dtypes; nullptr for others than the dtype itself,
/// and Float tables for Half and BFloat16.
SCRAMJET_DECLARE_CPU_KERNEL(RopeForward* rope_rows(c10::ScalarType dtype, c10::ScalarType tables,
                                                   bool interleaved))

}  // namespace scramjet::ops
