#pragma once

#include <ATen/core/Tensor.h>
#include <c10/macros/Export.h>

#include <string_view>
#include <tuple>

/// The gated activations of "GLU Variants Improve Transformer" (Shazeer 2020, arXiv:2002.05202), as
/// operators of their own: the middle of a SwiGLU or GeGLU feed-forward block.
///
///     at::Tensor hidden = scramjet::ops::silu_mul(gate_projection(x), up_projection(x));
///
/// Take them where a program is not compiled as a whole; a compiled one fuses the same by itself.
/// In place of two operators' passes over memory there is one, and what is kept for the backward is
/// `gate` and `up` alone.
///
/// `gate`, `up`: Float, Double, Half or BFloat16, of one dtype, shape and device (cpu, cuda, meta),
/// in any strides; the two halves of one projection, `x.chunk(2, -1)`, need no copy. Half and
/// BFloat16 compute in float and round once, where eager's two operators round twice.
///
/// Returns new tensors of that shape and dtype, with the strides that `gate * up` has.
///
/// Differentiable any number of times, in forward mode and under vmap too; the second derivative
/// takes ATen's operators. Under autocast no dtype is lowered, and where the two differ both are
/// cast to the wider one, as torch does for `gate * up`.
///
/// Errors: c10::TypeError for other or different dtypes, c10::ValueError for different shapes or
/// devices or an unknown `approximate`, c10::NotImplementedError for a sparse, quantized or
/// otherwise laid out tensor, or one on another device.
namespace scramjet::ops {

/// SwiGLU: silu(gate) * up, where silu(x) = x / (1 + exp(-x)).
C10_EXPORT at::Tensor silu_mul(const at::Tensor& gate, const at::Tensor& up);

/// GeGLU: gelu(gate) * up. `approximate`: "none" for gelu(x) = x / 2 * (1 + erf(x / sqrt(2))),
/// "tanh" for x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))), as at::gelu.
C10_EXPORT at::Tensor gelu_mul(const at::Tensor& gate, const at::Tensor& up,
                               std::string_view approximate = "none");

/// The gradients with respect to `gate` and `up`, in one pass: (grad_output * up * silu'(gate),
/// grad_output * silu(gate)). All arguments are of one dtype, shape and device.
C10_EXPORT std::tuple<at::Tensor, at::Tensor> silu_mul_backward(const at::Tensor& grad_output,
                                                                const at::Tensor& gate,
                                                                const at::Tensor& up);

/// The same for gelu_mul.
C10_EXPORT std::tuple<at::Tensor, at::Tensor> gelu_mul_backward(
    const at::Tensor& grad_output, const at::Tensor& gate, const at::Tensor& up,
    std::string_view approximate = "none");

}  // namespace scramjet::ops
