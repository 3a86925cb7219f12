#pragma once

#include <ATen/core/Tensor.h>
#include <c10/macros/Export.h>

#include <optional>

/// Rotary position embedding (Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position
/// Embedding", arXiv:2104.09864), one pass over memory.
///
///     at::Tensor q = scramjet::ops::rope(query, cos, sin);  // [batch, heads, sequence, head_dim]
///     at::Tensor k = scramjet::ops::rope(key, cos, sin, positions);
///
/// Take it for queries and keys where a program is not compiled as a whole.
///
/// `input`: [*, head_dim] with its positions along `sequence_dim`, any but the last: -2 for
/// [batch, heads, sequence, head_dim], -3 for [batch, sequence, heads, head_dim]. Float, Double,
/// Half or BFloat16 on cpu, cuda or meta, in any strides; heads that are dense, such as those of a
/// part of a projection, need no copy. `cos`, `sin`: [max_positions, rotary_dim / 2], of input's
/// dtype, or Float where that is Half or BFloat16. Where rotary_dim < head_dim the rest is copied.
/// `positions`: [sequence], or [batch, sequence] for input's dimension 0, Int or Long, each below
/// max_positions; without it they are 0, 1, ... `interleaved`: false rotates (x[i],
/// x[i + rotary_dim / 2]), as GPT-NeoX and Llama do, true (x[2 i], x[2 i + 1]), as the paper and
/// GPT-J do. `inverse`: by the negated angle. Half and BFloat16 compute in float and round once.
///
/// Returns a contiguous tensor of input's shape and dtype.
///
/// Differentiable any number of times, in forward mode and under vmap too: the gradient is the
/// inverse rotation of grad_output. Tables that need gradients have them by ATen's operators. Under
/// autocast input's dtype is kept, and tables of another dtype are cast.
///
/// Errors: c10::TypeError for other dtypes, c10::ValueError for shapes or devices that do not fit
/// and, on cpu, positions out of range (on cuda the kernel stops), c10::NotImplementedError for a
/// sparse, quantized or otherwise laid out tensor, or one on another device.
namespace scramjet::ops {

/// (a cos - b sin, b cos + a sin) of each pair (a, b), with row p of the tables at position p.
C10_EXPORT at::Tensor rope(const at::Tensor& input, const at::Tensor& cos, const at::Tensor& sin,
                           const std::optional<at::Tensor>& positions = {},
                           bool interleaved = false, int64_t sequence_dim = -2,
                           bool inverse = false);

}  // namespace scramjet::ops
