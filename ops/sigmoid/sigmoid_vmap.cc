#include <ATen/functorch/DynamicLayer.h>
#include <ATen/functorch/PlumbingHelper.h>
#include <ATen/ops/movedim.h>
#include <torch/library.h>

#include "ops/sigmoid/sigmoid.h"

namespace scramjet::ops {
namespace {

using at::functorch::makeBatched;
using at::functorch::unwrapTensorAtLevel;

// The keyset that vmap leaves active would bring the calls below back here.
using OutsideVmap = c10::impl::ExcludeDispatchKeyGuard;

int64_t current_level() {
  const auto layer = at::functorch::maybeCurrentDynamicLayer();
  TORCH_INTERNAL_ASSERT(layer.has_value());
  return layer->layerId();
}

at::Tensor sigmoid_vmap(const at::Tensor& x) {
  OutsideVmap guard(c10::DispatchKey::FuncTorchBatched);
  const int64_t level = current_level();
  const auto [value, batch_dim] = unwrapTensorAtLevel(x, level);
  return makeBatched(ops::sigmoid(value), batch_dim, level);
}

/// `x` with the batch as dimension 0, of size 1 where `x` is the same for the whole batch.
at::Tensor with_leading_batch(const at::Tensor& x, std::optional<int64_t> batch_dim) {
  return batch_dim ? at::movedim(x, *batch_dim, 0) : x.unsqueeze(0);
}

at::Tensor sigmoid_backward_vmap(const at::Tensor& grad_output, const at::Tensor& output) {
  OutsideVmap guard(c10::DispatchKey::FuncTorchBatched);
  const int64_t level = current_level();
  const auto [grad_value, grad_dim] = unwrapTensorAtLevel(grad_output, level);
  const auto [output_value, output_dim] = unwrapTensorAtLevel(output, level);
  if (!grad_dim && !output_dim) return ops::sigmoid_backward(grad_value, output_value);
  const at::Tensor grads = with_leading_batch(grad_value, grad_dim);
  const at::Tensor outputs = with_leading_batch(output_value, output_dim);
  const c10::SymInt batch = (grad_dim ? grads : outputs).sym_size(0);
  const auto expand = [&](const at::Tensor& x) {
    std::vector<c10::SymInt> sizes = x.sym_sizes().vec();
    sizes[0] = batch;
    return x.expand_symint(sizes);
  };
  return makeBatched(ops::sigmoid_backward(expand(grads), expand(outputs)), 0, level);
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, FuncTorchBatched, m) {
  m.impl("sigmoid", sigmoid_vmap);
  m.impl("sigmoid_backward", sigmoid_backward_vmap);
}

}  // namespace scramjet::ops
