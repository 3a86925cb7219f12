#include <torch/library.h>

#include "ops/softmax/softmax_call.h"
#include "ops/softmax/softmax_kernels.h"
#include "ops/vmap_batch.h"

namespace scramjet::ops {
namespace {

/// The mask, whose batch is dimension 0, with as many dimensions as `x`: the batch is not one that
/// a sample's mask is broadcast to.
at::Tensor aligned_mask(at::Tensor mask, const at::Tensor& x) {
  while (mask.dim() < x.dim()) mask = mask.unsqueeze(1);
  return mask;
}

at::Tensor softmax_vmap(const SoftmaxArguments& call) {
  check_softmax(call);
  if (!call.mask.defined()) {
    const BatchedCall batch(call.x);
    return batch.batched(
        call_softmax({call.op, call.x_name, batch[0], call.mask, call.scale, call.causal}));
  }
  const BatchedCall batch({call.x, call.mask});
  const at::Tensor mask = aligned_mask(batch[1], batch[0]);
  return batch.batched(
      call_softmax({call.op, call.x_name, batch[0], mask, call.scale, call.causal}));
}

at::Tensor softmax_backward_vmap(const SoftmaxArguments& call, const at::Tensor& grad_output) {
  check_softmax_backward(call, grad_output);
  if (!call.mask.defined()) {
    const BatchedCall batch({call.x, grad_output});
    return batch.batched(call_softmax_backward(
        {call.op, call.x_name, batch[0], call.mask, call.scale, call.causal}, batch[1]));
  }
  const BatchedCall batch({call.x, grad_output, call.mask});
  const at::Tensor mask = aligned_mask(batch[2], batch[0]);
  return batch.batched(call_softmax_backward(
      {call.op, call.x_name, batch[0], mask, call.scale, call.causal}, batch[1]));
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, FuncTorchBatched, m) {
  SoftmaxKernels<softmax_vmap, softmax_backward_vmap>::add_to(m);
}

}  // namespace scramjet::ops
