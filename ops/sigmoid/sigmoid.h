#pragma once

#include <ATen/core/Tensor.h>
#include <c10/macros/Export.h>

/// The logistic function as an operator of its own: `torch.ops.scramjet.sigmoid`, the pattern that
/// every operator in ops/ follows.
namespace scramjet::ops {

/// 1 / (1 + exp(-x)), elementwise.
///
///     at::Tensor y = scramjet::ops::sigmoid(at::randn({2, 3}));
///
/// `x`: a dense tensor of any shape and strides, on cpu, cuda or meta. Float, Double, Half and
/// BFloat16 keep their dtype (Half and BFloat16 compute in float and round once); integers and
/// Bool are promoted to the default dtype, as at::sigmoid promotes them.
///
/// Returns a new tensor of the shape of `x`, in [0, 1], NaN where `x` is; its strides are those
/// that at::sigmoid returns (channels_last stays channels_last). On CPU an element's value does not
/// depend on where it stands: it is what ATen's vector code gives, to the bit, and within 2 units
/// in the last place of its scalar code (which ATen runs on tails and strided tensors).
///
/// Differentiable any number of times, in forward mode and under vmap too. Under autocast the
/// dtype is that of `x`, since sigmoid is in none of torch's cast lists.
///
/// Errors: c10::TypeError for complex and other dtypes, c10::NotImplementedError for a sparse,
/// quantized or otherwise laid out tensor, or one on another device.
C10_EXPORT at::Tensor sigmoid(const at::Tensor& x);

/// The gradient of sigmoid: grad_output * (1 - output) * output, elementwise, where `output` is
/// sigmoid(x). Sigmoid's autograd formula calls it; it is differentiable itself.
///
/// `grad_output`, `output`: Float, Double, Half or BFloat16, of one dtype, shape and device, in any
/// strides. Returns a new tensor like them; strides as at::sigmoid_backward returns them.
///
/// Errors: c10::TypeError for other or different dtypes, c10::ValueError for different shapes or
/// devices, c10::NotImplementedError as for sigmoid.
C10_EXPORT at::Tensor sigmoid_backward(const at::Tensor& grad_output, const at::Tensor& output);

}  // namespace scramjet::ops
