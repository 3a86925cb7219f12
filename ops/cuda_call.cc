#include "ops/cuda_call.h"

#include <c10/cuda/CUDAStream.h>

namespace scramjet::ops {

CudaDtype cuda_dtype(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return CudaDtype::kDouble;
    case at::kHalf:
      return CudaDtype::kHalf;
    case at::kBFloat16:
      return CudaDtype::kBFloat16;
    default:
      TORCH_INTERNAL_ASSERT(dtype == at::kFloat, dtype);
      return CudaDtype::kFloat;
  }
}

void* current_cuda_stream() { return c10::cuda::getCurrentCUDAStream().stream(); }

}  // namespace scramjet::ops
