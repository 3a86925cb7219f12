#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "ops/attention/attention_arguments.h"
#include "ops/attention/attention_kernels.h"

namespace scramjet::ops {
namespace {

AttentionOutputs attention_meta(const AttentionArguments& call) {
  check_attention(call);
  return {at::empty_symint(attention_output_sizes(call), call.query.options()),
          at::empty_symint(attention_logsumexp_sizes(call),
                           call.query.options().dtype(call.compute_dtype()))};
}

AttentionGradientOutputs attention_backward_meta(const AttentionArguments& call,
                                                 const AttentionResults& results) {
  check_attention_backward(call, results);
  const auto empty = [](const at::Tensor& x) {
    return at::empty_symint(x.sym_sizes(), x.options());
  };
  return {empty(call.query), empty(call.key), empty(call.value)};
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, Meta, m) {
  AttentionKernels<attention_meta, attention_backward_meta>::add_to(m);
}

}  // namespace scramjet::ops
