#include <torch/library.h>

#include "ops/loss/aten_loss.h"
#include "ops/loss/loss_kernels.h"

namespace scramjet::ops {

// Each sample of a batch has a reduction of its own, which the fused kernels do not know.
TORCH_LIBRARY_IMPL(scramjet, FuncTorchBatched, m) {
  LossKernels<aten_loss, aten_loss_backward, aten_linear_loss, aten_linear_loss_backward>::add_to(
      m);
}

}  // namespace scramjet::ops
