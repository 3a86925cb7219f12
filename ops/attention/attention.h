#pragma once

#include <ATen/core/Tensor.h>
#include <c10/macros/Export.h>

#include <optional>
#include <tuple>

#include "ops/attention/attention_options.h"

/// Attention without the matrix of scores: softmax(query key^T scale + mask) value, tile by tile
/// with the softmax that grows with them (Dao 2023, "FlashAttention-2", arXiv:2307.08691).
///
///     auto [y, logsumexp] = scramjet::ops::attention(query, key, value, {}, {.causal = true});
///
/// Memory is linear in the lengths, forward and backward. The arguments are those of
/// scaled_dot_product_attention:
///
/// `query`: [batch, heads, queries, dim], Float, Double, Half or BFloat16 on cpu, cuda or meta, in
/// any strides; rows that are dense need no copy, so that a part of a projection is taken as it is.
/// `key`: [batch, key_heads, keys, dim] and `value`: [batch, key_heads, keys, value_dim], of
/// query's dtype and device. key_heads divides heads: each serves heads / key_heads heads of
/// queries that follow each other (Ainslie et al. 2023, "GQA", arXiv:2305.13245).
/// `mask`: [batch, heads, queries, keys], or what broadcasts to it: Bool, true where a key takes
/// part, or added to the scaled scores, in query's dtype, or Float where that is Half or BFloat16.
///
/// Returns the output, [batch, heads, queries, value_dim] of query's dtype, and the logarithm of
/// the sum of the exponentials of each query's scores, [batch, heads, queries] in Float (Double for
/// Double). A query that sees no key gives 0 and minus infinity. Scores and sums are computed in
/// the latter type, and rounded once.
///
/// Differentiable any number of times, in forward mode and under vmap too; a mask's own gradient,
/// second derivatives and forward mode take ATen's operators and the matrix of scores. Under
/// autocast it runs in the lower precision, as scaled_dot_product_attention does.
///
/// Errors: c10::TypeError for other dtypes, c10::ValueError for shapes or devices that do not fit,
/// c10::NotImplementedError for a sparse, quantized or otherwise laid out tensor, or one on another
/// device.
namespace scramjet::ops {

C10_EXPORT std::tuple<at::Tensor, at::Tensor> attention(const at::Tensor& query,
                                                        const at::Tensor& key,
                                                        const at::Tensor& value,
                                                        const std::optional<at::Tensor>& mask = {},
                                                        const AttentionOptions& options = {});

/// Attention within each of several sequences of any lengths, one after the other without padding.
///
///     // Two sequences, of 3 and 5 tokens; query, key and value: [8, heads, dim].
///     const at::Tensor starts = torch::tensor({0, 3, 8});
///     auto [y, logsumexp] = scramjet::ops::attention_varlen(query, key, value, starts, starts);
///
/// `query`: [queries, heads, dim], `key`: [keys, key_heads, dim], `value`: [keys, key_heads,
/// value_dim], of all sequences together. `query_starts`, `key_starts`: [sequences + 1], Int or
/// Long on query's device: the first row of each sequence, and the number of all rows. Returns
/// [queries, heads, value_dim] and [heads, queries]. The rest is as for attention; on cuda the
/// starts are not checked.
C10_EXPORT std::tuple<at::Tensor, at::Tensor> attention_varlen(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& query_starts, const at::Tensor& key_starts,
    const AttentionOptions& options = {});

/// (grad_query, grad_key, grad_value), from what attention returned and the gradients of that; that
/// of the logarithms may be absent.
C10_EXPORT std::tuple<at::Tensor, at::Tensor, at::Tensor> attention_backward(
    const at::Tensor& grad_output, const std::optional<at::Tensor>& grad_logsumexp,
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const std::optional<at::Tensor>& mask, const at::Tensor& output, const at::Tensor& logsumexp,
    const AttentionOptions& options = {});

C10_EXPORT std::tuple<at::Tensor, at::Tensor, at::Tensor> attention_varlen_backward(
    const at::Tensor& grad_output, const std::optional<at::Tensor>& grad_logsumexp,
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& query_starts, const at::Tensor& key_starts, const at::Tensor& output,
    const at::Tensor& logsumexp, const AttentionOptions& options = {});

}  // namespace scramjet::ops
