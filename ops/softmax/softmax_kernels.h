#pragma once

#include <torch/library.h>

#include "ops/softmax/softmax_arguments.h"

namespace scramjet::ops {

/// The kernels of one dispatch key, from a function for the operator and one for its backward:
///
///     TORCH_LIBRARY_IMPL(scramjet, Meta, m) { SoftmaxKernels<forward, backward>::add_to(m); }
template <at::Tensor kForward(const SoftmaxArguments& call),
          at::Tensor kBackward(const SoftmaxArguments& call, const at::Tensor& grad_output)>
class SoftmaxKernels {
  using Optional = std::optional<at::Tensor>;

 public:
  static void add_to(torch::Library& m) {
    m.impl("softmax", softmax);
    m.impl("softmax_backward", softmax_backward);
  }

 private:
  static at::Tensor softmax(const at::Tensor& input, const Optional& mask, double scale,
                            bool causal) {
    return kForward({"scramjet::softmax", "input", input, mask_or_none(mask), scale, causal});
  }

  static at::Tensor softmax_backward(const at::Tensor& grad_output, const at::Tensor& output,
                                     const Optional& mask, double scale, bool causal) {
    return kBackward(
        {"scramjet::softmax_backward", "output", output, mask_or_none(mask), scale, causal},
        grad_output);
  }
};

}  // namespace scramjet::ops
