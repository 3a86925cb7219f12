#include "ops/norm/aten_norm.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/rms_norm.h>

#include <numeric>
#include <vector>

namespace scramjet::ops {
namespace {

/// The gradient of a parameter from its terms, one for each element of the input.
at::Tensor sum_of_terms(const NormArguments& call, const at::Tensor& parameter,
                        const at::Tensor& terms) {
  if (!parameter.defined()) return at::empty({0}, call.input.options());
  std::vector<int64_t> outer(call.outer_dims());
  std::iota(outer.begin(), outer.end(), 0);
  return (outer.empty() ? terms : terms.sum(outer)).to(parameter.scalar_type());
}

}  // namespace

NormOutputs aten_norm(const NormArguments& call) {
  check_norm(call);
  const at::Tensor sum = call.residual.defined() ? call.input.add(call.residual) : at::Tensor();
  const at::Tensor& x = sum.defined() ? sum : call.input;
  if (call.norm == Norm::kRms) {
    return {at::rms_norm_symint(x, call.normalized_shape, call.weight, call.eps), sum};
  }
  return {at::layer_norm_symint(x, call.normalized_shape, call.weight, call.bias, *call.eps), sum};
}

NormGradients aten_norm_backward(const NormArguments& call, const at::Tensor& grad_output,
                                 const at::Tensor& grad_sum) {
  check_norm_backward(call, grad_output, grad_sum);
  const at::ScalarType wide = call.compute_dtype();
  std::vector<int64_t> row(call.normalized_shape.size());
  std::iota(row.begin(), row.end(), call.outer_dims());
  const auto mean = [&](const at::Tensor& x) { return x.mean(row, /*keepdim=*/true); };

  at::Tensor x = call.input.to(wide);
  if (call.norm == Norm::kLayer) x = x.sub(mean(x));
  const at::Tensor rstd = mean(x.square()).add(call.eps_value()).rsqrt();
  const at::Tensor normalized = x.mul(rstd);
  const at::Tensor grad = grad_output.to(wide);
  const at::Tensor slope = call.weight.defined() ? grad.mul(call.weight.to(wide)) : grad;
  at::Tensor projected = slope.sub(normalized.mul(mean(slope.mul(normalized))));
  if (call.norm == Norm::kLayer) projected = projected.sub(mean(slope));
  at::Tensor grad_input = projected.mul(rstd);
  if (grad_sum.defined()) grad_input = grad_input.add(grad_sum.to(wide));
  return {grad_input.to(call.input.scalar_type()),
          sum_of_terms(call, call.weight, grad.mul(normalized)),
          sum_of_terms(call, call.bias, grad)};
}

}  // namespace scramjet::ops
