#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>
#include <c10/util/strides.h>
#include <torch/library.h>

#include <algorithm>

#include "ops/norm/norm_arguments.h"
#include "ops/norm/norm_cpu_kernel.h"
#include "ops/norm/norm_kernels.h"
#include "ops/norm/norm_operands.h"
#include "runtime/output_memory.h"

namespace scramjet::ops {
namespace {

at::Tensor empty_like_input(const NormArguments& call) {
  const at::IntArrayRef sizes = call.input.sizes();
  return runtime::allocate_output(sizes, c10::contiguous_strides(sizes), call.input.scalar_type());
}

int64_t rows_for_a_thread(int64_t columns) {
  constexpr int64_t kElements = 32768;  // As many as keep one thread, in TensorIterator too.
  return std::max<int64_t>(1, kElements / columns);
}

NormOutputs norm_cpu(const NormArguments& call) {
  static auto* const rms_kernel = SCRAMJET_FOR_THIS_CPU(rms_norm_rows);
  static auto* const layer_kernel = SCRAMJET_FOR_THIS_CPU(layer_norm_rows);
  check_norm(call);
  NormOutputs outputs{empty_like_input(call), {}};
  if (call.residual.defined()) outputs.sum = empty_like_input(call);
  if (call.input.numel() == 0) return outputs;
  const NormOperands operands(call, outputs);
  NormForward* const kernel = (call.norm == Norm::kRms ? rms_kernel : layer_kernel)(
      call.input.scalar_type(), call.parameter_dtype());
  at::parallel_for(0, operands.row_count(), rows_for_a_thread(operands.rows().columns),
                   [&](int64_t begin, int64_t end) { kernel(operands.rows(), begin, end); });
  return outputs;
}

/// Sums for the gradient of a parameter, a row for each part of the rows.
at::Tensor zero_sums(const NormArguments& call, const at::Tensor& parameter, int64_t parts) {
  if (!parameter.defined()) return {};
  return at::zeros({parts, parameter.numel()}, call.input.options().dtype(call.compute_dtype()));
}

char* sums_of_part(const at::Tensor& sums, int64_t part) {
  if (!sums.defined()) return nullptr;
  return static_cast<char*>(sums.mutable_data_ptr()) + part * sums.stride(0) * sums.element_size();
}

/// Into how many parts the rows go, each with sums of its own: short ones, since the sums of many
/// rows lose digits, and enough for the threads.
int64_t parts_of_backward(int64_t rows, int64_t columns) {
  constexpr int64_t kRows = 64;
  const int64_t of_threads =
      std::min<int64_t>(rows / rows_for_a_thread(columns), at::get_num_threads());
  return std::max<int64_t>({rows / kRows, of_threads, 1});
}

NormGradients norm_backward_cpu(const NormArguments& call, const at::Tensor& grad_output,
                                const at::Tensor& grad_sum) {
  static auto* const rms_kernel = SCRAMJET_FOR_THIS_CPU(rms_norm_backward_rows);
  static auto* const layer_kernel = SCRAMJET_FOR_THIS_CPU(layer_norm_backward_rows);
  check_norm_backward(call, grad_output, grad_sum);
  const at::Tensor grad_input = empty_like_input(call);
  const bool is_empty = call.input.numel() == 0;
  const NormBackwardOperands operands(call, grad_output, grad_sum, grad_input);
  const int64_t rows = operands.row_count();
  const int64_t parts = is_empty ? 1 : parts_of_backward(rows, operands.rows().columns);
  const at::Tensor weight_sums = zero_sums(call, call.weight, parts);
  const at::Tensor bias_sums = zero_sums(call, call.bias, parts);
  if (!is_empty) {
    NormBackward* const kernel = (call.norm == Norm::kRms ? rms_kernel : layer_kernel)(
        call.input.scalar_type(), call.parameter_dtype());
    at::parallel_for(0, parts, 1, [&](int64_t first, int64_t last) {
      for (int64_t part = first; part < last; ++part) {
        NormBackwardRows own = operands.rows();
        own.grad_weight = sums_of_part(weight_sums, part);
        own.grad_bias = sums_of_part(bias_sums, part);
        kernel(own, rows * part / parts, rows * (part + 1) / parts);
      }
    });
  }
  return {grad_input, parameter_gradient(call, call.weight, weight_sums),
          parameter_gradient(call, call.bias, bias_sums)};
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, CPU, m) { NormKernels<norm_cpu, norm_backward_cpu>::add_to(m); }

}  // namespace scramjet::ops
