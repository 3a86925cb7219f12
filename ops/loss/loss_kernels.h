#pragma once

#include <torch/library.h>

#include "ops/loss/loss_arguments.h"

namespace scramjet::ops {

/// The kernels of one dispatch key for all operators of the family, from four functions:
///
///     TORCH_LIBRARY_IMPL(scramjet, Meta, m) {
///       LossKernels<loss_meta, loss_backward_meta, linear_loss_meta,
///                   linear_loss_backward_meta>::add_to(m);
///     }
template <LossOutputs kLoss(const LossArguments& call),
          at::Tensor kBackward(const LossArguments& call, const at::Tensor& grad_output,
                               const at::Tensor& logsumexp),
          LinearLossOutputs kLinearLoss(const LinearLossArguments& call,
                                        const WantedGradients& wanted),
          LinearLossGradients kLinearBackward(
              const LinearLossArguments& call, const at::Tensor& grad_output,
              const at::Tensor& logsumexp, const WantedGradients& wanted)>
class LossKernels {
  using Optional = std::optional<at::Tensor>;
  using Dtype = std::optional<at::ScalarType>;
  using Triple = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

 public:
  static void add_to(torch::Library& m) {
    add_differentiable_to(m);
    m.impl("cross_entropy_forward", cross_entropy_forward);
    m.impl("linear_cross_entropy_forward", linear_cross_entropy_forward);
  }

  static void add_differentiable_to(torch::Library& m) {
    m.impl("cross_entropy", cross_entropy);
    m.impl("cross_entropy_backward", cross_entropy_backward);
    m.impl("linear_cross_entropy", linear_cross_entropy);
    m.impl("linear_cross_entropy_backward", linear_cross_entropy_backward);
  }

 private:
  static at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& target,
                                  std::string_view reduction, int64_t ignore_index,
                                  double label_smoothing, double z_loss, Dtype dtype) {
    return kLoss({"scramjet::cross_entropy", logits, target,
                  LossOptions{reduction, ignore_index, label_smoothing, z_loss, dtype}})
        .loss;
  }

  static std::tuple<at::Tensor, at::Tensor> cross_entropy_forward(
      const at::Tensor& logits, const at::Tensor& target, std::string_view reduction,
      int64_t ignore_index, double label_smoothing, double z_loss, Dtype dtype) {
    const LossOutputs outputs =
        kLoss({"scramjet::cross_entropy", logits, target,
               LossOptions{reduction, ignore_index, label_smoothing, z_loss, dtype}});
    return {outputs.loss, outputs.logsumexp};
  }

  static at::Tensor cross_entropy_backward(const at::Tensor& grad_output, const at::Tensor& logits,
                                           const at::Tensor& target, const at::Tensor& logsumexp,
                                           std::string_view reduction, int64_t ignore_index,
                                           double label_smoothing, double z_loss) {
    return kBackward({"scramjet::cross_entropy_backward", logits, target,
                      LossOptions{reduction, ignore_index, label_smoothing, z_loss, {}}},
                     grad_output, logsumexp);
  }

  static at::Tensor linear_cross_entropy(const at::Tensor& input, const at::Tensor& weight,
                                         const at::Tensor& target, const Optional& bias,
                                         std::string_view reduction, int64_t ignore_index,
                                         double label_smoothing, double z_loss, Dtype dtype) {
    return kLinearLoss(
               {"scramjet::linear_cross_entropy", input, weight, target, tensor_or_none(bias),
                LossOptions{reduction, ignore_index, label_smoothing, z_loss, dtype}},
               {})
        .losses.loss;
  }

  static std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>
  linear_cross_entropy_forward(const at::Tensor& input, const at::Tensor& weight,
                               const at::Tensor& target, const Optional& bias,
                               std::string_view reduction, int64_t ignore_index,
                               double label_smoothing, double z_loss, Dtype dtype,
                               std::array<bool, 3> gradients) {
    const auto [losses, made] =
        kLinearLoss({"scramjet::linear_cross_entropy", input, weight, target, tensor_or_none(bias),
                     LossOptions{reduction, ignore_index, label_smoothing, z_loss, dtype}},
                    gradients);
    return {losses.loss, losses.logsumexp, made.input, made.weight, made.bias};
  }

  static Triple linear_cross_entropy_backward(const at::Tensor& grad_output,
                                              const at::Tensor& input, const at::Tensor& weight,
                                              const at::Tensor& target, const at::Tensor& logsumexp,
                                              const Optional& bias, std::string_view reduction,
                                              int64_t ignore_index, double label_smoothing,
                                              double z_loss, std::array<bool, 3> gradients) {
    const LinearLossGradients made = kLinearBackward(
        {"scramjet::linear_cross_entropy_backward", input, weight, target, tensor_or_none(bias),
         LossOptions{reduction, ignore_index, label_smoothing, z_loss, {}}},
        grad_output, logsumexp, gradients);
    return {made.input, made.weight, made.bias};
  }
};

}  // namespace scramjet::ops
