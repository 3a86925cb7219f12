#include <torch/library.h>

#include "ops/attention/aten_attention.h"
#include "ops/attention/attention_call.h"
#include "ops/attention/attention_kernels.h"
#include "ops/vmap_batch.h"

namespace scramjet::ops {
namespace {

/// A sample's mask with all four dimensions, [samples, batch, heads or 1, ...].
at::Tensor with_batch(at::Tensor mask, const c10::SymInt& batch) {
  while (mask.dim() < 5) mask = mask.unsqueeze(1);
  c10::SymDimVector sizes(mask.sym_sizes());
  sizes[1] = batch;
  return mask.expand_symint(sizes);
}

/// The samples are more of the batch.
AttentionOutputs attention_vmap(const AttentionArguments& call) {
  if (call.is_varlen()) return aten_attention(call);
  std::vector<at::Tensor> tensors = {call.query, call.key, call.value};
  if (call.mask.defined()) tensors.push_back(call.mask);
  const BatchedCall samples(tensors);
  const at::Tensor& query = samples[0];
  // Another argument's error is that of a call without samples.
  if (query.dim() != 5 || samples[1].dim() != 5 || samples[2].dim() != 5) {
    return aten_attention(call);
  }
  const c10::SymInt batch = query.sym_size(1);
  const auto flat = [](const at::Tensor& x) { return x.flatten(0, 1); };
  const at::Tensor mask =
      call.mask.defined() ? flat(with_batch(samples[3], batch)) : no_attention_mask();
  const AttentionOutputs outputs = call_attention(
      {call.op, flat(query), flat(samples[1]), flat(samples[2]), mask, call.options});
  const auto unflat = [&](const at::Tensor& x) {
    return samples.batched(x.unflatten_symint(0, {query.sym_size(0), batch}));
  };
  return {unflat(outputs.output), unflat(outputs.logsumexp)};
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, FuncTorchBatched, m) {
  AttentionKernels<attention_vmap, aten_attention_backward>::add_to(m);
}

}  // namespace scramjet::ops
