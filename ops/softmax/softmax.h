#pragma once

#include <ATen/core/Tensor.h>
#include <c10/macros/Export.h>

#include <optional>

/// softmax over the last dimension, with the scale and the mask of attention scores.
///
///     at::Tensor weights = scramjet::ops::softmax(scores, padding, 1 / std::sqrt(64.0));
///     at::Tensor causal = scramjet::ops::softmax(scores, {}, 0.125, /*causal=*/true);
///
/// Take it where a program computes attention scores itself. Scale, mask and softmax are one pass
/// over memory, and the backward needs the output alone. What `causal` hides is not read at all.
///
/// `input`: [*, queries, keys], at least one dimension, Float, Double, Half or BFloat16 on cpu,
/// cuda or meta, in any strides; rows that are dense need no copy. `mask`: broadcast to input's
/// shape without a copy, as long as its last dimension is that of `input`. Bool: true is what takes
/// part, as in at::scaled_dot_product_attention. Of input's dtype, or Float where that is Half or
/// BFloat16: added to input * scale. `causal`: query i sees the keys j <= i, at::tril's triangle,
/// as is_causal there; beside a mask both hold. Half and BFloat16 compute in float and round once.
///
/// Returns a contiguous tensor of input's shape and dtype. What is masked out has the weight 0. A
/// row with nothing left is NaN, as at::softmax of -inf throughout.
///
/// Differentiable any number of times, in forward mode and under vmap too; the second derivative
/// takes ATen's operators. The mask that is added has a gradient. What a bool mask or `causal`
/// leaves out has the gradient 0, in a row of NaN too. Under autocast on cuda it runs in float, as
/// at::softmax does; on cpu dtypes are kept, and a mask of another dtype is cast.
///
/// Errors: c10::TypeError for other dtypes, c10::ValueError for shapes or devices that do not fit,
/// c10::NotImplementedError for a sparse, quantized or otherwise laid out tensor, or one on another
/// device.
namespace scramjet::ops {

/// With s = input * scale + mask (-inf where a bool mask or `causal` leaves out), exp(s - max(s))
/// over its sum: softmax((input * scale).masked_fill(~mask, -inf), -1).
C10_EXPORT at::Tensor softmax(const at::Tensor& input, const std::optional<at::Tensor>& mask = {},
                              double scale = 1, bool causal = false);

/// The gradient of `input`: scale * output * (grad_output - sum(grad_output * output)). `output`,
/// `scale` and `causal` are softmax's; `mask` too where it is bool, else there is none.
C10_EXPORT at::Tensor softmax_backward(const at::Tensor& grad_output, const at::Tensor& output,
                                       const std::optional<at::Tensor>& mask = {}, double scale = 1,
                                       bool causal = false);

}  // namespace scramjet::ops
