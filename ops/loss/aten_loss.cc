#include "ops/loss/aten_loss.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

namespace scramjet::ops {
namespace {

at::Tensor counts(const LossArguments& call) { return call.target.ne(call.options.ignore_index); }

/// The targets as a column of indices, 0 where they are ignored.
at::Tensor indices(const LossArguments& call) {
  return at::where(counts(call), call.target, 0).unsqueeze(1);
}

at::Tensor logits_of(const LinearLossArguments& call) {
  return at::linear(call.input, call.weight, call.bias);
}

}  // namespace

LossOutputs aten_loss(const LossArguments& call) {
  check_loss(call);
  const auto& [reduction, ignore_index, label_smoothing, z_loss, dtype] = call.options;
  const at::Tensor x = call.logits.to(compute_dtype(call.logits.scalar_type()));
  const at::Tensor lse = at::logsumexp(x, 1);
  at::Tensor loss = lse.sub(x.gather(1, indices(call)).squeeze(1));
  if (label_smoothing != 0) {
    loss = loss.mul(1 - label_smoothing).add(lse.sub(x.mean(1)).mul(label_smoothing));
  }
  if (z_loss != 0) loss = loss.add(lse.square().mul(z_loss));
  const at::Tensor counted = counts(call);
  loss = at::where(counted, loss, 0);
  if (call.options.is_reduced()) loss = loss.sum();
  if (call.options.is_mean()) loss = loss.div(counted.sum());
  return {loss.to(call.loss_dtype()), at::where(counted, lse.detach(), 0).to(at::kDouble)};
}

at::Tensor aten_loss_backward(const LossArguments& call, const at::Tensor& grad_output,
                              const at::Tensor& logsumexp) {
  check_loss(call);
  check_loss_gradient(call.op, call.options, grad_output, call.target, logsumexp);
  const auto& [reduction, ignore_index, label_smoothing, z_loss, dtype] = call.options;
  const at::ScalarType wide = compute_dtype(call.logits.scalar_type());
  const at::Tensor x = call.logits.to(wide);
  at::Tensor slope = at::softmax(x, 1);
  if (z_loss != 0) {
    slope = slope.mul(at::logsumexp(x, 1, /*keepdim=*/true).mul(2 * z_loss).add(1));
  }
  if (label_smoothing != 0) {
    slope = slope.sub(c10::SymFloat(label_smoothing) / c10::SymFloat(call.logits.sym_size(1)));
  }
  slope = slope.sub(at::zeros_like(x).scatter(1, indices(call), 1 - label_smoothing));
  const at::Tensor counted = counts(call);
  at::Tensor grad = grad_output.to(wide);
  if (call.options.is_mean()) grad = grad.div(counted.sum());
  grad = at::where(counted, grad, 0).unsqueeze(1);
  return slope.mul(grad).to(call.logits.scalar_type());
}

LinearLossOutputs aten_linear_loss(const LinearLossArguments& call,
                                   const WantedGradients& /*wanted*/) {
  check_linear_loss(call);
  const at::Tensor logits = logits_of(call);
  const at::Tensor none = at::empty({0}, call.input.options());
  return {aten_loss({call.op, logits, call.target, call.options}), {none, none, none}};
}

LinearLossGradients aten_linear_loss_backward(const LinearLossArguments& call,
                                              const at::Tensor& grad_output,
                                              const at::Tensor& logsumexp,
                                              const WantedGradients& wanted) {
  check_linear_loss(call);
  const at::Tensor logits = logits_of(call);
  const at::Tensor slope =
      aten_loss_backward({call.op, logits, call.target, call.options}, grad_output, logsumexp);
  const at::Tensor none = at::empty({0}, call.input.options());
  return {wanted[0] ? slope.mm(call.weight) : none, wanted[1] ? slope.t().mm(call.input) : none,
          wanted[2] ? slope.sum(0) : none};
}

}  // namespace scramjet::ops
