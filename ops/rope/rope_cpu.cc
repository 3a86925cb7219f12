#include <ATen/Parallel.h>
#include <c10/util/strides.h>
#include <torch/library.h>

#include <algorithm>

#include "ops/rope/rope_arguments.h"
#include "ops/rope/rope_cpu_kernel.h"
#include "ops/rope/rope_kernels.h"
#include "ops/rope/rope_operands.h"
#include "runtime/output_memory.h"

namespace scramjet::ops {
namespace {

void check_range(const RopeOperands& operands) {
  if (!operands.positions().defined()) return;
  const auto* data = operands.positions().const_data_ptr<int64_t>();
  const int64_t max_positions = operands.rows().max_positions;
  for (int64_t i = 0; i < operands.positions().numel(); ++i) {
    TORCH_CHECK_VALUE(data[i] >= 0 && data[i] < max_positions, RopeArguments::op,
                      ": argument 'positions' has ", data[i],
                      "; expected positions that 'cos' has a row for, 0 to ", max_positions - 1);
  }
}

at::Tensor rope_cpu(const RopeArguments& call) {
  constexpr int64_t kElementsOfAThread = 32768;  // As many as keep one, in TensorIterator too.
  static auto* const kernels = SCRAMJET_FOR_THIS_CPU(rope_rows);
  check_rope(call);
  const at::IntArrayRef sizes = call.input.sizes();
  at::Tensor output =
      runtime::allocate_output(sizes, c10::contiguous_strides(sizes), call.input.scalar_type());
  if (output.numel() == 0) return output;
  const RopeOperands operands(call, output);
  check_range(operands);
  RopeForward* const kernel =
      kernels(call.input.scalar_type(), call.cos.scalar_type(), call.interleaved);
  const int64_t grain = std::max<int64_t>(1, kElementsOfAThread / call.input.size(-1));
  at::parallel_for(0, operands.row_count(), grain,
                   [&](int64_t begin, int64_t end) { kernel(operands.rows(), begin, end); });
  return output;
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, CPU, m) { m.impl("rope", rope_kernel<rope_cpu>); }

}  // namespace scramjet::ops
