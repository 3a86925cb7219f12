#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <c10/macros/Export.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>

/// The cross-entropy of logits and class indices, and that of a linear layer's output which is
/// never held as a whole: the loss of a language model.
///
///     at::Tensor loss = scramjet::ops::cross_entropy(logits, target);
///     at::Tensor loss = scramjet::ops::linear_cross_entropy(hidden, head_weight, target);
///
/// For a row x with class y, of C classes, the loss is
///     (1 - label_smoothing) (lse - x[y]) + label_smoothing (lse - mean(x)) + z_loss lse^2
/// with lse = log(sum(exp(x))): torch.nn.functional.cross_entropy, with the label smoothing of
/// Szegedy et al. 2016 (arXiv:1512.00567, section 7) and the z-loss of PaLM (Chowdhery et al. 2022,
/// arXiv:2204.02311, section 5). There are no class weights.
///
/// `logits`: [N, C], Float, Double, Half or BFloat16 on cpu, cuda or meta, in any strides; rows
/// that are dense need no copy. Half and BFloat16 compute in float and round once. `target`: [N],
/// Long. `reduction`: "none" gives [N]; "mean" over the rows that count (NaN if there are none) and
/// "sum" a scalar. `ignore_index`: rows of this target are not read; their loss and gradient are 0.
/// `label_smoothing`: 0 to 1. `dtype`: that of the loss: the logits' own by default, or Float where
/// that is Half or BFloat16.
///
/// Differentiable any number of times, in forward mode and under vmap too; the second derivative
/// and the transforms take ATen's operators. Under autocast the loss is Float, as torch's.
///
/// Errors: c10::TypeError for other dtypes, c10::ValueError for shapes, devices or options that do
/// not fit, c10::IndexError for a target that is no class (on cuda a device-side assertion, as in
/// torch), c10::NotImplementedError for a sparse, quantized or otherwise laid out tensor, or one on
/// another device.
namespace scramjet::ops {

/// One pass over the logits, which alone are kept for the backward, beside one number a row
/// (Milakov and Gimelshein 2018, "Online normalizer calculation for softmax", arXiv:1805.02867).
C10_EXPORT at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& target,
                                    std::string_view reduction = "mean",
                                    int64_t ignore_index = -100, double label_smoothing = 0,
                                    double z_loss = 0, std::optional<at::ScalarType> dtype = {});

/// cross_entropy(linear(input, weight, bias), target, ...), with a part of the rows' logits at a
/// time. For "mean" and "sum" the gradients are made along with the loss and kept until the
/// backward, so training takes the three matrix products of a linear layer (in BFloat16 on cpu
/// four, so that the weight's gradient is rounded once). They are scaled by grad_output in the end:
/// in BFloat16 that is a rounding more, unless it is a power of two. For "none", and for Half,
/// whose gradients need the loss scale, the backward computes the logits anew; so does a second
/// backward over the same graph.
///
/// `input`: [N, D]; `weight`: [C, D]; `bias`: [C]; all of one dtype.
C10_EXPORT at::Tensor linear_cross_entropy(const at::Tensor& input, const at::Tensor& weight,
                                           const at::Tensor& target,
                                           const std::optional<at::Tensor>& bias = {},
                                           std::string_view reduction = "mean",
                                           int64_t ignore_index = -100, double label_smoothing = 0,
                                           double z_loss = 0,
                                           std::optional<at::ScalarType> dtype = {});

/// (loss, logsumexp): the latter [N], Double, so that large logits lose no digits; 0 where a row is
/// ignored. Not differentiable.
C10_EXPORT std::tuple<at::Tensor, at::Tensor> cross_entropy_forward(
    const at::Tensor& logits, const at::Tensor& target, std::string_view reduction,
    int64_t ignore_index, double label_smoothing, double z_loss,
    std::optional<at::ScalarType> dtype);

/// The gradient of the logits, with the logsumexp of cross_entropy_forward.
C10_EXPORT at::Tensor cross_entropy_backward(const at::Tensor& grad_output,
                                             const at::Tensor& logits, const at::Tensor& target,
                                             const at::Tensor& logsumexp,
                                             std::string_view reduction, int64_t ignore_index,
                                             double label_smoothing, double z_loss);

/// (loss, logsumexp, grad_input, grad_weight, grad_bias): the gradients for a grad_output of 1 that
/// `gradients` asks for; the others have no elements. The bias's is still in the type that its
/// dtype computes in. Not differentiable.
C10_EXPORT std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>
linear_cross_entropy_forward(const at::Tensor& input, const at::Tensor& weight,
                             const at::Tensor& target, const std::optional<at::Tensor>& bias,
                             std::string_view reduction, int64_t ignore_index,
                             double label_smoothing, double z_loss,
                             std::optional<at::ScalarType> dtype, std::array<bool, 3> gradients);

/// (grad_input, grad_weight, grad_bias), with the logits computed anew.
C10_EXPORT std::tuple<at::Tensor, at::Tensor, at::Tensor> linear_cross_entropy_backward(
    const at::Tensor& grad_output, const at::Tensor& input, const at::Tensor& weight,
    const at::Tensor& target, const at::Tensor& logsumexp, const std::optional<at::Tensor>& bias,
    std::string_view reduction, int64_t ignore_index, double label_smoothing, double z_loss,
    std::array<bool, 3> gradients);

}  // namespace scramjet::ops
