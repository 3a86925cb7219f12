#include <torch/library.h>

#include "ops/glu/glu.h"
#include "ops/vmap_batch.h"

namespace scramjet::ops {
namespace {

using Gradients = std::tuple<at::Tensor, at::Tensor>;

Gradients batched_pair(const BatchedCall& call, const Gradients& gradients) {
  return {call.batched(std::get<0>(gradients)), call.batched(std::get<1>(gradients))};
}

at::Tensor silu_mul_vmap(const at::Tensor& gate, const at::Tensor& up) {
  const BatchedCall call({gate, up});
  return call.batched(ops::silu_mul(call[0], call[1]));
}

at::Tensor gelu_mul_vmap(const at::Tensor& gate, const at::Tensor& up,
                         std::string_view approximate) {
  const BatchedCall call({gate, up});
  return call.batched(ops::gelu_mul(call[0], call[1], approximate));
}

Gradients silu_mul_backward_vmap(const at::Tensor& grad_output, const at::Tensor& gate,
                                 const at::Tensor& up) {
  const BatchedCall call({grad_output, gate, up});
  return batched_pair(call, ops::silu_mul_backward(call[0], call[1], call[2]));
}

Gradients gelu_mul_backward_vmap(const at::Tensor& grad_output, const at::Tensor& gate,
                                 const at::Tensor& up, std::string_view approximate) {
  const BatchedCall call({grad_output, gate, up});
  return batched_pair(call, ops::gelu_mul_backward(call[0], call[1], call[2], approximate));
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, FuncTorchBatched, m) {
  m.impl("silu_mul", silu_mul_vmap);
  m.impl("gelu_mul", gelu_mul_vmap);
  m.impl("silu_mul_backward", silu_mul_backward_vmap);
  m.impl("gelu_mul_backward", gelu_mul_backward_vmap);
}

}  // namespace scramjet::ops
