#pragma once

/// What nvcc knows beyond C++, for a `.cu` that g++ compiles: cuda_host_library includes this
/// before the source, as nvcc includes cuda_runtime.h. `<<< >>>` and `__shared__`, which no header
/// can give a meaning, are rewritten by launch_syntax.py into calls of launch() and shared().
///
/// Not there: PTX, cooperative groups, textures, launches from a kernel, blocks that wait for each
/// other.
#include <cuda_runtime.h>

#include "tests/cuda_host/atomic_functions.h"
#include "tests/cuda_host/grid_execution.h"
#include "tests/cuda_host/kernel_launch.h"
#include "tests/cuda_host/math_functions.h"
#include "tests/cuda_host/shared_memory.h"
#include "tests/cuda_host/warp_functions.h"

#define __launch_bounds__(...)

extern uint3 threadIdx;
extern uint3 blockIdx;
extern dim3 blockDim;
extern dim3 gridDim;
