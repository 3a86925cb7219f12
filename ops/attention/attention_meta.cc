#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <torch/library.h>

#include "ops/attention/attention_arguments.h"
#include "ops/attention/attention_kernels.h"

namespace scramjet::ops {
namespace {

at::Tensor empty_output(const AttentionArguments& call, c10::SymIntArrayRef sizes) {
  return at::empty_strided_symint(sizes, attention_strides(call, sizes), call.query.options());
}

AttentionOutputs attention_meta(const AttentionArguments& call) {
  check_attention(call);
  return {empty_output(call, attention_output_sizes(call)),
          at::empty_symint(attention_logsumexp_sizes(call),
                           call.query.options().dtype(call.compute_dtype()))};
}

AttentionGradientOutputs attention_backward_meta(const AttentionArguments& call,
                                                 const AttentionResults& results) {
  check_attention_backward(call, results);
  return {empty_output(call, call.query.sym_sizes()), empty_output(call, call.key.sym_sizes()),
          empty_output(call, call.value.sym_sizes())};
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, Meta, m) {
  AttentionKernels<attention_meta, attention_backward_meta>::add_to(m);
}

}  // namespace scramjet::ops
