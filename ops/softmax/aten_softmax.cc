#include "ops/softmax/aten_softmax.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>

#include <limits>

namespace scramjet::ops {
namespace {

/// `scores` with `value` where a bool mask or `causal` leaves out.
at::Tensor fill_left_out(const SoftmaxArguments& call, at::Tensor scores, double value) {
  if (call.has_bool_mask()) scores = scores.masked_fill(call.mask.logical_not(), value);
  if (!call.causal) return scores;
  const at::Tensor all = at::ones_symint({call.x.sym_size(-2), call.x.sym_size(-1)},
                                         call.x.options().dtype(at::kBool));
  return scores.masked_fill(all.triu(1), value);
}

}  // namespace

at::Tensor aten_softmax(const SoftmaxArguments& call) {
  check_softmax(call);
  at::Tensor scores = call.x.to(call.compute_dtype()).mul(call.scale);
  if (call.has_added_mask()) scores = scores.add(call.mask);
  scores = fill_left_out(call, scores, -std::numeric_limits<double>::infinity());
  return at::softmax(scores, -1).to(call.x.scalar_type());
}

at::Tensor aten_softmax_backward(const SoftmaxArguments& call, const at::Tensor& grad_output) {
  check_softmax_backward(call, grad_output);
  const at::Tensor output = call.x.to(call.compute_dtype());
  const at::Tensor grad = grad_output.to(call.compute_dtype());
  const at::Tensor mean = grad.mul(output).sum(-1, /*keepdim=*/true);
  return fill_left_out(call, grad.sub(mean).mul(output).mul(call.scale), 0)
      .to(call.x.scalar_type());
}

}  // namespace scramjet::ops
