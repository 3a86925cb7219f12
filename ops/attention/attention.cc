#include "ops/attention/attention.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "ops/argument_checks.h"
#include "ops/attention/attention_kernels.h"

namespace scramjet::ops {
namespace {

using Optional = std::optional<at::Tensor>;

void check_supported(const char* op, const char* argument, const at::Tensor& x) {
  if (!x.defined()) return;
  if (x.layout() != at::kStrided || !(x.is_cpu() || x.is_cuda())) {
    fail_unsupported(op, argument, x);
  }
}

[[noreturn]] void fail(const AttentionArguments& call) {
  check_supported(call.op, "query", call.query);
  check_supported(call.op, "key", call.key);
  check_supported(call.op, "value", call.value);
  check_supported(call.op, "mask", call.mask);
  fail_unsupported(call.op, "query", call.query);
}

AttentionOutputs unsupported_attention(const AttentionArguments& call) { fail(call); }

AttentionGradientOutputs unsupported_attention_backward(const AttentionArguments& call,
                                                        const AttentionResults& results) {
  check_supported(call.op, "grad_output", results.grad_output);
  check_supported(call.op, "grad_logsumexp", results.grad_logsumexp);
  check_supported(call.op, "output", results.output);
  check_supported(call.op, "logsumexp", results.logsumexp);
  fail(call);
}

template <typename Signature>
c10::TypedOperatorHandle<Signature> find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

using Length = std::optional<int64_t>;
using Attention = std::tuple<at::Tensor, at::Tensor>(const at::Tensor&, const at::Tensor&,
                                                     const at::Tensor&, const Optional&,
                                                     std::optional<double>, bool, Length, Length);
using AttentionBackward = std::tuple<at::Tensor, at::Tensor, at::Tensor>(
    const at::Tensor&, const Optional&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
    const Optional&, const at::Tensor&, const at::Tensor&, std::optional<double>, bool, Length,
    Length);

using AttentionVarlen = std::tuple<at::Tensor, at::Tensor>(const at::Tensor&, const at::Tensor&,
                                                           const at::Tensor&, const at::Tensor&,
                                                           const at::Tensor&, std::optional<double>,
                                                           bool, Length, Length);
using AttentionVarlenBackward = std::tuple<at::Tensor, at::Tensor, at::Tensor>(
    const at::Tensor&, const Optional&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
    const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
    std::optional<double>, bool, Length, Length);

}  // namespace

TORCH_LIBRARY_FRAGMENT(scramjet, m) {
  const std::vector<at::Tag> tags = {at::Tag::pt2_compliant_tag};
  m.def(
      "attention(Tensor query, Tensor key, Tensor value, Tensor? mask=None, *, float? scale=None, "
      "bool causal=False, int? window_left=None, int? window_right=None) -> (Tensor output, "
      "Tensor logsumexp)",
      tags);
  m.def(
      "attention_backward(Tensor grad_output, Tensor? grad_logsumexp, Tensor query, Tensor key, "
      "Tensor value, Tensor? mask, Tensor output, Tensor logsumexp, *, float? scale=None, "
      "bool causal=False, int? window_left=None, int? window_right=None) -> (Tensor grad_query, "
      "Tensor grad_key, Tensor grad_value)",
      tags);
  m.def(
      "attention_varlen(Tensor query, Tensor key, Tensor value, Tensor query_starts, "
      "Tensor key_starts, *, float? scale=None, bool causal=False, int? window_left=None, "
      "int? window_right=None) -> (Tensor output, Tensor logsumexp)",
      tags);
  m.def(
      "attention_varlen_backward(Tensor grad_output, Tensor? grad_logsumexp, Tensor query, "
      "Tensor key, Tensor value, Tensor query_starts, Tensor key_starts, Tensor output, "
      "Tensor logsumexp, *, float? scale=None, bool causal=False, int? window_left=None, "
      "int? window_right=None) -> (Tensor grad_query, Tensor grad_key, Tensor grad_value)",
      tags);
}

// Backends without a kernel of their own come here, for a clearer error than the dispatcher's.
TORCH_LIBRARY_IMPL(scramjet, CompositeExplicitAutograd, m) {
  AttentionKernels<unsupported_attention, unsupported_attention_backward>::add_to(m);
}

std::tuple<at::Tensor, at::Tensor> attention(const at::Tensor& query, const at::Tensor& key,
                                             const at::Tensor& value, const Optional& mask,
                                             const AttentionOptions& options) {
  static const auto op = find_operator<Attention>("scramjet::attention");
  return op.call(query, key, value, mask, options.scale, options.causal, options.window_left,
                 options.window_right);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> attention_backward(
    const at::Tensor& grad_output, const Optional& grad_logsumexp, const at::Tensor& query,
    const at::Tensor& key, const at::Tensor& value, const Optional& mask, const at::Tensor& output,
    const at::Tensor& logsumexp, const AttentionOptions& options) {
  static const auto op = find_operator<AttentionBackward>("scramjet::attention_backward");
  return op.call(grad_output, grad_logsumexp, query, key, value, mask, output, logsumexp,
                 options.scale, options.causal, options.window_left, options.window_right);
}

std::tuple<at::Tensor, at::Tensor> attention_varlen(const at::Tensor& query, const at::Tensor& key,
                                                    const at::Tensor& value,
                                                    const at::Tensor& query_starts,
                                                    const at::Tensor& key_starts,
                                                    const AttentionOptions& options) {
  static const auto op = find_operator<AttentionVarlen>("scramjet::attention_varlen");
  return op.call(query, key, value, query_starts, key_starts, options.scale, options.causal,
                 options.window_left, options.window_right);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> attention_varlen_backward(
    const at::Tensor& grad_output, const Optional& grad_logsumexp, const at::Tensor& query,
    const at::Tensor& key, const at::Tensor& value, const at::Tensor& query_starts,
    const at::Tensor& key_starts, const at::Tensor& output, const at::Tensor& logsumexp,
    const AttentionOptions& options) {
  static const auto op =
      find_operator<AttentionVarlenBackward>("scramjet::attention_varlen_backward");
  return op.call(grad_output, grad_logsumexp, query, key, value, query_starts, key_starts, output,
                 logsumexp, options.scale, options.causal, options.window_left,
                 options.window_right);
}

}  // namespace scramjet::ops
