#include "ops/vmap_batch.h"

#include <ATen/functorch/DynamicLayer.h>
#include <ATen/functorch/PlumbingHelper.h>
#include <ATen/ops/movedim.h>

#include <optional>
#include <utility>

namespace scramjet::ops {
namespace {

int64_t current_level() {
  const auto layer = at::functorch::maybeCurrentDynamicLayer();
  TORCH_INTERNAL_ASSERT(layer.has_value());
  return layer->layerId();
}

at::Tensor expand_batch(const at::Tensor& x, const c10::SymInt& batch) {
  std::vector<c10::SymInt> sizes = x.sym_sizes().vec();
  sizes.insert(sizes.begin(), batch);
  return x.unsqueeze(0).expand_symint(sizes);
}

}  // namespace

bool is_batched(const at::Tensor& x) {
  return x.defined() && std::get<1>(at::functorch::unwrapTensorAtLevel(x, current_level()));
}

BatchedCall::BatchedCall(at::TensorList arguments) : level_(current_level()) {
  std::vector<char> is_shared;
  c10::SymInt batch;
  for (const at::Tensor& argument : arguments) {
    auto [value, batch_dim] = at::functorch::unwrapTensorAtLevel(argument, level_);
    is_shared.push_back(!batch_dim);
    if (batch_dim) {
      value = at::movedim(value, *batch_dim, 0);
      batch = value.sym_size(0);
      has_batch_ = true;
    }
    values_.push_back(std::move(value));
  }
  if (!has_batch_) return;
  for (size_t i = 0; i < values_.size(); ++i) {
    if (is_shared[i]) values_[i] = expand_batch(values_[i], batch);
  }
}

at::Tensor BatchedCall::batched(const at::Tensor& result) const {
  return has_batch_ ? at::functorch::makeBatched(result, 0, level_) : result;
}

}  // namespace scramjet::ops
