#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "ops/softmax/softmax_arguments.h"
#include "ops/softmax/softmax_kernels.h"

namespace scramjet::ops {
namespace {

at::Tensor empty_like_x(const SoftmaxArguments& call) {
  return at::empty_symint(call.x.sym_sizes(), call.x.options());
}

at::Tensor softmax_meta(const SoftmaxArguments& call) {
  check_softmax(call);
  return empty_like_x(call);
}

at::Tensor softmax_backward_meta(const SoftmaxArguments& call, const at::Tensor& grad_output) {
  check_softmax_backward(call, grad_output);
  return empty_like_x(call);
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, Meta, m) {
  SoftmaxKernels<softmax_meta, softmax_backward_meta>::add_to(m);
}

}  // namespace scramjet::ops
