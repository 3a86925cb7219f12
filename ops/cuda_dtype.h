#pragma once

namespace scramjet::ops {

/// The dtypes of the CUDA kernels; half and bfloat16 compute in float.
enum class CudaDtype { kFloat, kDouble, kHalf, kBFloat16 };

}  // namespace scramjet::ops
