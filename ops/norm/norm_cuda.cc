#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include <algorithm>

#include "ops/cuda_call.h"
#include "ops/norm/norm_arguments.h"
#include "ops/norm/norm_cuda_kernel.h"
#include "ops/norm/norm_kernels.h"
#include "ops/norm/norm_operands.h"

namespace scramjet::ops {
namespace {

char* data_or_none(const at::Tensor& x) {
  return x.defined() ? static_cast<char*>(x.mutable_data_ptr()) : nullptr;
}

NormLaunch launch_of(const NormArguments& call, int64_t rows) {
  return {cuda_dtype(call.input.scalar_type()), cuda_dtype(call.parameter_dtype()),
          call.norm == Norm::kLayer, rows, current_cuda_stream()};
}

NormOutputs norm_cuda(const NormArguments& call) {
  check_norm(call);
  const c10::cuda::CUDAGuard guard(call.input.device());
  const auto empty = [&] { return at::empty(call.input.sizes(), call.input.options()); };
  NormOutputs outputs{empty(), {}};
  if (call.residual.defined()) outputs.sum = empty();
  if (call.input.numel() == 0) return outputs;
  const NormOperands operands(call, outputs);
  launch_norm(launch_of(call, operands.row_count()), operands.rows());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return outputs;
}

NormGradients norm_backward_cuda(const NormArguments& call, const at::Tensor& grad_output,
                                 const at::Tensor& grad_sum) {
  constexpr int64_t kRowsOfASplit = 128;
  constexpr int64_t kMaxSplits = 64;
  check_norm_backward(call, grad_output, grad_sum);
  const c10::cuda::CUDAGuard guard(call.input.device());
  const at::Tensor grad_input = at::empty(call.input.sizes(), call.input.options());
  const NormBackwardOperands operands(call, grad_output, grad_sum, grad_input);
  const auto wide = call.input.options().dtype(call.compute_dtype());
  NormBackwardRoom room;
  room.splits = std::clamp<int64_t>(operands.row_count() / kRowsOfASplit, 1, kMaxSplits);
  const auto zero_sums = [&](const at::Tensor& parameter) {
    return parameter.defined() ? at::zeros({room.splits, parameter.numel()}, wide) : at::Tensor();
  };
  const at::Tensor weight_sums = zero_sums(call.weight);
  const at::Tensor bias_sums = zero_sums(call.bias);
  if (call.input.numel() > 0) {
    NormBackwardRows rows = operands.rows();
    rows.grad_weight = data_or_none(weight_sums);
    rows.grad_bias = data_or_none(bias_sums);
    at::Tensor moments;
    if (weight_sums.defined() || bias_sums.defined()) {
      moments = at::empty({3, operands.row_count()}, wide);
      const int64_t bytes = operands.row_count() * static_cast<int64_t>(moments.element_size());
      room.center = data_or_none(moments);
      room.rstd = room.center + bytes;
      room.shift = room.rstd + bytes;
    }
    launch_norm_backward(launch_of(call, operands.row_count()), rows, room);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
  return {grad_input, parameter_gradient(call, call.weight, weight_sums),
          parameter_gradient(call, call.bias, bias_sums)};
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, CUDA, m) { NormKernels<norm_cuda, norm_backward_cuda>::add_to(m); }

}  // namespace scramjet::ops
