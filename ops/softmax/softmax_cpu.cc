#include <ATen/Parallel.h>
#include <c10/util/strides.h>
#include <torch/library.h>

#include <algorithm>
#include <memory>

#include "ops/softmax/softmax_arguments.h"
#include "ops/softmax/softmax_cpu_kernel.h"
#include "ops/softmax/softmax_kernels.h"
#include "ops/softmax/softmax_operands.h"
#include "runtime/output_memory.h"

namespace scramjet::ops {
namespace {

at::Tensor empty_like_x(const SoftmaxArguments& call) {
  const at::IntArrayRef sizes = call.x.sizes();
  return runtime::allocate_output(sizes, c10::contiguous_strides(sizes), call.x.scalar_type());
}

int64_t rows_for_a_thread(int64_t columns) {
  constexpr int64_t kElements = 16384;
  return std::max<int64_t>(1, kElements / columns);
}

at::Tensor softmax_cpu(const SoftmaxArguments& call) {
  static auto* const kernels = SCRAMJET_FOR_THIS_CPU(softmax_rows);
  check_softmax(call);
  at::Tensor output = empty_like_x(call);
  if (output.numel() == 0) return output;
  const SoftmaxOperands operands(call, output);
  SoftmaxForward* const kernel = kernels(call.x.scalar_type(), mask_kind(call));
  const int64_t columns = operands.rows().columns;
  const size_t scratch_bytes = columns * c10::elementSize(call.compute_dtype());
  at::parallel_for(0, operands.row_count(), rows_for_a_thread(columns),
                   [&](int64_t begin, int64_t end) {
                     const std::unique_ptr<char[]> scratch(new char[scratch_bytes]);
                     kernel(operands.rows(), scratch.get(), begin, end);
                   });
  return output;
}

at::Tensor softmax_backward_cpu(const SoftmaxArguments& call, const at::Tensor& grad_output) {
  static auto* const kernels = SCRAMJET_FOR_THIS_CPU(softmax_backward_rows);
  check_softmax_backward(call, grad_output);
  at::Tensor grad_input = empty_like_x(call);
  if (grad_input.numel() == 0) return grad_input;
  const SoftmaxBackwardOperands operands(call, grad_output, grad_input);
  SoftmaxBackward* const kernel = kernels(call.x.scalar_type());
  at::parallel_for(0, operands.row_count(), rows_for_a_thread(operands.rows().columns),
                   [&](int64_t begin, int64_t end) { kernel(operands.rows(), begin, end); });
  return grad_input;
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, CPU, m) {
  SoftmaxKernels<softmax_cpu, softmax_backward_cpu>::add_to(m);
}

}  // namespace scramjet::ops
