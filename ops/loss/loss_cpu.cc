#include <ATen/Parallel.h>
#include <torch/library.h>

#include <algorithm>

#include "ops/loss/linear_loss.h"
#include "ops/loss/loss_by_rows.h"
#include "ops/loss/loss_cpu_kernel.h"
#include "ops/loss/loss_kernels.h"

namespace scramjet::ops {
namespace {

void run_on_cpu(at::ScalarType dtype, const LossRows& rows, int64_t count) {
  constexpr int64_t kElementsOfAThread = 32768;  // As many as keep one, in TensorIterator too.
  static auto* const kernel_for = SCRAMJET_FOR_THIS_CPU(loss_rows);
  auto* const kernel = kernel_for(dtype);
  const int64_t grain = kElementsOfAThread / std::max<int64_t>(rows.columns, 1);
  at::parallel_for(0, count, std::max<int64_t>(grain, 1),
                   [&](int64_t begin, int64_t end) { kernel(rows, begin, end); });
}

LossOutputs loss_cpu(const LossArguments& call) { return loss_by_rows(call, run_on_cpu); }

at::Tensor loss_backward_cpu(const LossArguments& call, const at::Tensor& grad_output,
                             const at::Tensor& logsumexp) {
  return loss_backward_by_rows(call, grad_output, logsumexp, run_on_cpu);
}

LinearLossOutputs linear_loss_cpu(const LinearLossArguments& call, const WantedGradients& wanted) {
  return linear_loss_by_rows(call, wanted, run_on_cpu);
}

LinearLossGradients linear_loss_backward_cpu(const LinearLossArguments& call,
                                             const at::Tensor& grad_output,
                                             const at::Tensor& logsumexp,
                                             const WantedGradients& wanted) {
  return linear_loss_backward_by_rows(call, grad_output, logsumexp, wanted, run_on_cpu);
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, CPU, m) {
  LossKernels<loss_cpu, loss_backward_cpu, linear_loss_cpu, linear_loss_backward_cpu>::add_to(m);
}

}  // namespace scramjet::ops
