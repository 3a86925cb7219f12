#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "ops/norm/norm_arguments.h"
#include "ops/norm/norm_kernels.h"

namespace scramjet::ops {
namespace {

at::Tensor empty_like_input(const NormArguments& call) {
  return at::empty_symint(call.input.sym_sizes(), call.input.options());
}

at::Tensor empty_gradient(const NormArguments& call, const at::Tensor& parameter) {
  if (!parameter.defined()) return at::empty({0}, call.input.options());
  return at::empty_symint(parameter.sym_sizes(), parameter.options());
}

NormOutputs norm_meta(const NormArguments& call) {
  check_norm(call);
  return {empty_like_input(call), call.residual.defined() ? empty_like_input(call) : at::Tensor()};
}

NormGradients norm_backward_meta(const NormArguments& call, const at::Tensor& grad_output,
                                 const at::Tensor& grad_sum) {
  check_norm_backward(call, grad_output, grad_sum);
  return {empty_like_input(call), empty_gradient(call, call.weight),
          empty_gradient(call, call.bias)};
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, Meta, m) { NormKernels<norm_meta, norm_backward_meta>::add_to(m); }

}  // namespace scramjet::ops
