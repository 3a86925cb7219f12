#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/SymInt.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstdint>
#include <vector>

/// What the batching rules of the operators share.
///
///     at::Tensor add_vmap(const at::Tensor& a, const at::Tensor& b) {
///       const BatchedCall call({a, b});
///       return call.batched(ops::add(call[0], call[1]));
///     }
namespace scramjet::ops {

/// Whether torch.vmap's current level maps over `x`. An undefined tensor is not mapped over.
bool is_batched(const at::Tensor& x);

/// One call of an elementwise operator inside torch.vmap: the arguments without their wrapper, of
/// one shape that has the batch as dimension 0. An argument that is the same for the whole batch
/// is expanded. While it lives, operators do not come back to vmap.
class BatchedCall {
 public:
  /// `arguments`: of one shape, as each sample of the batch sees them.
  explicit BatchedCall(at::TensorList arguments);

  const at::Tensor& operator[](size_t i) const { return values_[i]; }

  /// The operator's result, or one of its results, as vmap's caller sees it.
  at::Tensor batched(const at::Tensor& result) const;

 private:
  c10::impl::ExcludeDispatchKeyGuard outside_vmap_{c10::DispatchKey::FuncTorchBatched};
  int64_t level_;
  bool has_batch_ = false;
  std::vector<at::Tensor> values_;
};

}  // namespace scramjet::ops
