#include "ops/attention/aten_attention.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/bucketize.h>
#include <ATen/ops/matmul.h>

#include <limits>

namespace scramjet::ops {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

/// Each head of keys or values for all heads of queries that it serves, in the type that is
/// computed in: [batch, heads, keys, last].
at::Tensor for_all_heads(const AttentionArguments& call, const at::Tensor& x) {
  at::Tensor wide = x.to(call.compute_dtype());
  const c10::SymInt heads = call.query.sym_size(1);
  if (heads == x.sym_size(1)) return wide;
  return wide.repeat_interleave_symint(heads / x.sym_size(1), 1);
}

/// The sum over the heads of queries that a head of keys serves.
at::Tensor for_own_head(const AttentionArguments& call, const at::Tensor& gradient) {
  const c10::SymInt heads = call.key.sym_size(1);
  if (heads == call.query.sym_size(1)) return gradient;
  return gradient.unflatten_symint(1, {heads, call.query.sym_size(1) / heads}).sum(2);
}

/// The sequence that each row belongs to, [rows].
at::Tensor sequences_of(const at::Tensor& rows, const at::Tensor& starts) {
  return at::bucketize(rows, starts.to(at::kLong), /*out_int32=*/false, /*right=*/true).sub(1);
}

/// Which keys of its sequence a query sees, [queries, keys].
at::Tensor window_of_sequences(const AttentionArguments& call) {
  const at::TensorOptions options = call.query.options().dtype(at::kLong);
  const at::Tensor queries = at::arange(call.query.sym_size(2), options);
  const at::Tensor keys = at::arange(call.key.sym_size(2), options);
  const at::Tensor sequence = sequences_of(queries, *call.query_starts);
  const auto end_of = [&](const at::Tensor& starts) {
    return starts.to(at::kLong).index_select(0, sequence.add(1));
  };
  const at::Tensor own_key = queries.sub(end_of(*call.query_starts)).add(end_of(*call.key_starts));
  const at::Tensor distance = keys.sub(own_key.unsqueeze(1));
  return sequences_of(keys, *call.key_starts)
      .eq(sequence.unsqueeze(1))
      .logical_and(distance.le(call.right()))
      .logical_and(distance.ge(-call.left()));
}

/// Which keys a query sees, [queries, keys]; undefined where it is all of them.
at::Tensor window(const AttentionArguments& call) {
  if (call.is_varlen()) return window_of_sequences(call);
  const bool is_limited = call.options.causal || call.options.window_left.has_value() ||
                          call.options.window_right.has_value();
  if (!is_limited) return {};
  const c10::SymInt queries = call.query.sym_size(2);
  const c10::SymInt keys = call.key.sym_size(2);
  const at::TensorOptions options = call.query.options().dtype(at::kLong);
  const at::Tensor distance =
      at::arange(keys, options).sub(at::arange(queries, options).add(keys - queries).unsqueeze(1));
  return distance.le(call.right()).logical_and(distance.ge(-call.left()));
}

at::Tensor scores_of(const AttentionArguments& call) {
  const at::Tensor query = call.query.to(call.compute_dtype());
  at::Tensor scores =
      at::matmul(query, for_all_heads(call, call.key).transpose(-2, -1)).mul(call.scale());
  if (call.mask.defined()) {
    scores = call.mask.scalar_type() == at::kBool
                 ? scores.masked_fill(call.mask.logical_not(), kMinusInfinity)
                 : scores.add(call.mask);
  }
  const at::Tensor visible = window(call);
  return visible.defined() ? scores.masked_fill(visible.logical_not(), kMinusInfinity) : scores;
}

}  // namespace

AttentionOutputs aten_attention(const AttentionArguments& call) {
  check_attention(call);
  const at::Tensor scores = scores_of(call);
  // Without keys there is no largest score either.
  if (call.key.sym_size(2) == 0) {
    const at::Tensor nothing = scores.sum(-1);
    return {at::matmul(scores, for_all_heads(call, call.value)).to(call.query.scalar_type()),
            nothing.add(kMinusInfinity)};
  }
  const at::Tensor largest = scores.detach().amax(-1, /*keepdim=*/true);
  const at::Tensor shift = largest.masked_fill(largest.eq(kMinusInfinity), 0);
  const at::Tensor weights = scores.sub(shift).exp();
  const at::Tensor sum = weights.sum(-1, /*keepdim=*/true);
  const at::Tensor is_empty = sum.eq(0);
  const at::Tensor divisor = sum.masked_fill(is_empty, 1);
  return {at::matmul(weights.div(divisor), for_all_heads(call, call.value))
              .to(call.query.scalar_type()),
          divisor.log().add(shift).masked_fill(is_empty, kMinusInfinity).squeeze(-1)};
}

AttentionGradientOutputs aten_attention_backward(const AttentionArguments& call,
                                                 const AttentionResults& results) {
  check_attention_backward(call, results);
  const at::ScalarType wide = call.compute_dtype();
  const at::ScalarType dtype = call.query.scalar_type();
  const at::Tensor shift =
      results.logsumexp.masked_fill(results.logsumexp.eq(kMinusInfinity), 0).unsqueeze(-1);
  const at::Tensor weights = scores_of(call).sub(shift).exp();
  const at::Tensor grad = results.grad_output.to(wide);
  at::Tensor delta = grad.mul(results.output.to(wide)).sum(-1, /*keepdim=*/true);
  if (results.grad_logsumexp.defined()) delta = delta.sub(results.grad_logsumexp.unsqueeze(-1));
  const at::Tensor grad_scores =
      weights.mul(at::matmul(grad, for_all_heads(call, call.value).transpose(-2, -1)).sub(delta))
          .mul(call.scale());
  const at::Tensor query = call.query.to(wide);
  return {at::matmul(grad_scores, for_all_heads(call, call.key)).to(dtype),
          for_own_head(call, at::matmul(grad_scores.transpose(-2, -1), query)).to(dtype),
          for_own_head(call, at::matmul(weights.transpose(-2, -1), grad)).to(dtype)};
}

}  // namespace scramjet::ops
