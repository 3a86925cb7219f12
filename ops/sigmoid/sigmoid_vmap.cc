#include <torch/library.h>

#include "ops/sigmoid/sigmoid.h"
#include "ops/vmap_batch.h"

namespace scramjet::ops {
namespace {

at::Tensor sigmoid_vmap(const at::Tensor& x) {
  const BatchedCall call(x);
  return call.batched(ops::sigmoid(call[0]));
}

at::Tensor sigmoid_backward_vmap(const at::Tensor& grad_output, const at::Tensor& output) {
  const BatchedCall call({grad_output, output});
  return call.batched(ops::sigmoid_backward(call[0], call[1]));
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, FuncTorchBatched, m) {
  m.impl("sigmoid", sigmoid_vmap);
  m.impl("sigmoid_backward", sigmoid_backward_vmap);
}

}  // namespace scramjet::ops
