#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include "ops/cuda_call.h"
#include "ops/rope/rope_arguments.h"
#include "ops/rope/rope_cuda_kernel.h"
#include "ops/rope/rope_kernels.h"
#include "ops/rope/rope_operands.h"

namespace scramjet::ops {
namespace {

at::Tensor rope_cuda(const RopeArguments& call) {
  check_rope(call);
  const c10::cuda::CUDAGuard guard(call.input.device());
  at::Tensor output = at::empty(call.input.sizes(), call.input.options());
  if (output.numel() == 0) return output;
  const RopeOperands operands(call, output);
  launch_rope({cuda_dtype(call.input.scalar_type()), cuda_dtype(call.cos.scalar_type()),
               call.interleaved, operands.row_count(), current_cuda_stream()},
              operands.rows());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return output;
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, CUDA, m) { m.impl("rope", rope_kernel<rope_cuda>); }

}  // namespace scramjet::ops
