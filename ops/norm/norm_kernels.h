#pragma once

#include <torch/library.h>

#include "ops/norm/norm_arguments.h"

namespace scramjet::ops {

/// The kernels of one dispatch key for all operators of the family, from a function for the norms
/// and one for their backwards:
///
///     TORCH_LIBRARY_IMPL(scramjet, Meta, m) { NormKernels<norm_meta,
///     norm_backward_meta>::add_to(m); }
template <NormOutputs kNorm(const NormArguments& call),
          NormGradients kBackward(const NormArguments& call, const at::Tensor& grad_output,
                                  const at::Tensor& grad_sum)>
class NormKernels {
  using Optional = std::optional<at::Tensor>;
  using Sizes = c10::SymIntArrayRef;
  using Eps = std::optional<double>;

 public:
  static void add_to(torch::Library& m) {
    m.impl("rms_norm", rms_norm);
    m.impl("layer_norm", layer_norm);
    m.impl("add_rms_norm", add_rms_norm);
    m.impl("add_layer_norm", add_layer_norm);
    m.impl("rms_norm_backward", rms_norm_backward);
    m.impl("layer_norm_backward", layer_norm_backward);
  }

 private:
  static at::Tensor rms_norm(const at::Tensor& input, Sizes normalized_shape,
                             const Optional& weight, Eps eps) {
    return kNorm({"scramjet::rms_norm", Norm::kRms, input, no_tensor(), normalized_shape,
                  tensor_or_none(weight), no_tensor(), eps})
        .output;
  }

  static at::Tensor layer_norm(const at::Tensor& input, Sizes normalized_shape,
                               const Optional& weight, const Optional& bias, double eps) {
    return kNorm({"scramjet::layer_norm", Norm::kLayer, input, no_tensor(), normalized_shape,
                  tensor_or_none(weight), tensor_or_none(bias), eps})
        .output;
  }

  static std::tuple<at::Tensor, at::Tensor> add_rms_norm(const at::Tensor& input,
                                                         const at::Tensor& residual,
                                                         Sizes normalized_shape,
                                                         const Optional& weight, Eps eps) {
    const NormOutputs outputs = kNorm({"scramjet::add_rms_norm", Norm::kRms, input, residual,
                                       normalized_shape, tensor_or_none(weight), no_tensor(), eps});
    return {outputs.output, outputs.sum};
  }

  static std::tuple<at::Tensor, at::Tensor> add_layer_norm(const at::Tensor& input,
                                                           const at::Tensor& residual,
                                                           Sizes normalized_shape,
                                                           const Optional& weight,
                                                           const Optional& bias, double eps) {
    const NormOutputs outputs =
        kNorm({"scramjet::add_layer_norm", Norm::kLayer, input, residual, normalized_shape,
               tensor_or_none(weight), tensor_or_none(bias), eps});
    return {outputs.output, outputs.sum};
  }

  static std::tuple<at::Tensor, at::Tensor> rms_norm_backward(const at::Tensor& grad_output,
                                                              const Optional& grad_sum,
                                                              const at::Tensor& input,
                                                              Sizes normalized_shape,
                                                              const Optional& weight, Eps eps) {
    const NormGradients gradients =
        kBackward({"scramjet::rms_norm_backward", Norm::kRms, input, no_tensor(), normalized_shape,
                   tensor_or_none(weight), no_tensor(), eps},
                  grad_output, tensor_or_none(grad_sum));
    return {gradients.input, gradients.weight};
  }

  static std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm_backward(
      const at::Tensor& grad_output, const Optional& grad_sum, const at::Tensor& input,
      Sizes normalized_shape, const Optional& weight, const Optional& bias, double eps) {
    const NormGradients gradients =
        kBackward({"scramjet::layer_norm_backward", Norm::kLayer, input, no_tensor(),
                   normalized_shape, tensor_or_none(weight), tensor_or_none(bias), eps},
                  grad_output, tensor_or_none(grad_sum));
    return {gradients.input, gradients.weight, gradients.bias};
  }
};

}  // namespace scramjet::ops
