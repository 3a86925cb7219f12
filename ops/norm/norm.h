#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/SymIntArrayRef.h>
#include <c10/macros/Export.h>

#include <optional>
#include <tuple>

/// The norms of a transformer block as operators of their own, alone and with the residual addition
/// before them.
///
///     at::Tensor y = scramjet::ops::rms_norm(x, {4096}, weight);
///     auto [y, x] = scramjet::ops::add_rms_norm(attention_output, x, {4096}, weight);
///
/// Take them where a program is not compiled as a whole. A row is read from memory once, and
/// nothing is kept for the backward but the input (or the sum) and the weight: mean and variance
/// are computed anew where they are needed.
///
/// `input`: [*, *normalized_shape], Float, Double, Half or BFloat16 on cpu, cuda or meta, in any
/// strides; rows that are dense need no copy. `residual`: of input's shape, dtype and device.
/// `normalized_shape`: the last dimensions of `input`, at least one: those the mean goes over.
/// `weight`, `bias`: of the shape normalized_shape and input's dtype, or Float where that is Half
/// or BFloat16; each may be absent. `eps`: added to the mean square or variance; for rms_norm
/// nullopt is the machine epsilon of the type it computes in. Half and BFloat16 compute in float
/// and round once.
///
/// Returns a contiguous tensor of input's shape and dtype.
///
/// Differentiable any number of times, in forward mode and under vmap too; the second derivative
/// takes ATen's operators. Under autocast on cuda all of them run in float, as torch's norms do;
/// on cpu dtypes are kept, and where input and residual differ both are cast to the wider one.
///
/// Errors: c10::TypeError for other dtypes, c10::ValueError for shapes or devices that do not fit,
/// c10::NotImplementedError for a sparse, quantized or otherwise laid out tensor, or one on another
/// device.
namespace scramjet::ops {

/// x / sqrt(mean(x^2) + eps) * weight (Zhang and Sennrich 2019, "Root Mean Square Layer
/// Normalization", arXiv:1910.07467), as at::rms_norm.
C10_EXPORT at::Tensor rms_norm(const at::Tensor& input, c10::SymIntArrayRef normalized_shape,
                               const std::optional<at::Tensor>& weight = {},
                               std::optional<double> eps = {});

/// (x - mean(x)) / sqrt(var(x) + eps) * weight + bias, with the biased variance (Ba, Kiros and
/// Hinton 2016, "Layer Normalization", arXiv:1607.06450), as at::layer_norm.
C10_EXPORT at::Tensor layer_norm(const at::Tensor& input, c10::SymIntArrayRef normalized_shape,
                                 const std::optional<at::Tensor>& weight = {},
                                 const std::optional<at::Tensor>& bias = {}, double eps = 1e-5);

/// (rms_norm(sum, ...), sum) of sum = input + residual, which is rounded to its dtype first, as
/// by two operators.
C10_EXPORT std::tuple<at::Tensor, at::Tensor> add_rms_norm(
    const at::Tensor& input, const at::Tensor& residual, c10::SymIntArrayRef normalized_shape,
    const std::optional<at::Tensor>& weight = {}, std::optional<double> eps = {});

/// (layer_norm(sum, ...), sum) of sum = input + residual.
C10_EXPORT std::tuple<at::Tensor, at::Tensor> add_layer_norm(
    const at::Tensor& input, const at::Tensor& residual, c10::SymIntArrayRef normalized_shape,
    const std::optional<at::Tensor>& weight = {}, const std::optional<at::Tensor>& bias = {},
    double eps = 1e-5);

/// (grad_input, grad_weight) of rms_norm, or of add_rms_norm: there `input` is the sum, `grad_sum`
/// the gradient of that output, and grad_input that of both `input` and `residual`. Without a
/// weight grad_weight has no elements.
C10_EXPORT std::tuple<at::Tensor, at::Tensor> rms_norm_backward(
    const at::Tensor& grad_output, const std::optional<at::Tensor>& grad_sum,
    const at::Tensor& input, c10::SymIntArrayRef normalized_shape,
    const std::optional<at::Tensor>& weight = {}, std::optional<double> eps = {});

/// (grad_input, grad_weight, grad_bias) of layer_norm, or of add_layer_norm in the same way.
C10_EXPORT std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm_backward(
    const at::Tensor& grad_output, const std::optional<at::Tensor>& grad_sum,
    const at::Tensor& input, c10::SymIntArrayRef normalized_shape,
    const std::optional<at::Tensor>& weight = {}, const std::optional<at::Tensor>& bias = {},
    double eps = 1e-5);

}  // namespace scramjet::ops
