#include <torch/library.h>

#include "ops/norm/aten_norm.h"
#include "ops/norm/norm_call.h"
#include "ops/norm/norm_kernels.h"
#include "ops/vmap_batch.h"

namespace scramjet::ops {
namespace {

/// The batch is one more dimension of rows, as long as all share their parameters.
NormOutputs norm_vmap(const NormArguments& call) {
  if (is_batched(call.weight) || is_batched(call.bias)) return aten_norm(call);
  if (!call.residual.defined()) {
    const BatchedCall batch(call.input);
    const NormOutputs outputs =
        call_norm({call.op, call.norm, batch[0], no_tensor(), call.normalized_shape, call.weight,
                   call.bias, call.eps});
    return {batch.batched(outputs.output), {}};
  }
  const BatchedCall batch({call.input, call.residual});
  const NormOutputs outputs = call_norm({call.op, call.norm, batch[0], batch[1],
                                         call.normalized_shape, call.weight, call.bias, call.eps});
  return {batch.batched(outputs.output), batch.batched(outputs.sum)};
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, FuncTorchBatched, m) {
  // Each sample has its own gradients of the parameters, which the fused kernels would sum up.
  NormKernels<norm_vmap, aten_norm_backward>::add_to(m);
}

}  // namespace scramjet::ops
