#include "ops/norm/norm_operands.h"

#include <ATen/ops/empty.h>
#include <c10/util/accumulate.h>

namespace scramjet::ops {
namespace {

MatrixRows matrix_rows_or_none(const at::Tensor& x, int64_t columns) {
  return x.defined() ? matrix_rows(x, columns) : MatrixRows();
}

Rows rows_of(const MatrixRows& x) {
  if (!x.owner.defined()) return {};
  return {const_cast<char*>(static_cast<const char*>(x.owner.const_data_ptr())), x.stride};
}

Rows dense_rows(const at::Tensor& x, int64_t columns) {
  if (!x.defined()) return {};
  return {static_cast<char*>(x.mutable_data_ptr()), columns};
}

at::Tensor dense_or_none(const at::Tensor& x) { return x.defined() ? x.contiguous() : x; }

const char* data_or_none(const at::Tensor& x) {
  return x.defined() ? static_cast<const char*>(x.const_data_ptr()) : nullptr;
}

int64_t row_count_of(const NormArguments& call) {
  return call.input.numel() == 0 ? 0 : call.input.numel() / norm_columns(call);
}

}  // namespace

int64_t norm_columns(const NormArguments& call) {
  return c10::multiply_integers(call.input.sizes().slice(call.outer_dims()));
}

NormOperands::NormOperands(const NormArguments& call, const NormOutputs& outputs)
    : row_count_(row_count_of(call)),
      input_(matrix_rows(call.input, norm_columns(call))),
      residual_(matrix_rows_or_none(call.residual, norm_columns(call))),
      weight_(dense_or_none(call.weight)),
      bias_(dense_or_none(call.bias)) {
  rows_.columns = norm_columns(call);
  rows_.eps = call.eps_value();
  rows_.input = rows_of(input_);
  rows_.residual = rows_of(residual_);
  rows_.weight = data_or_none(weight_);
  rows_.bias = data_or_none(bias_);
  rows_.output = dense_rows(outputs.output, rows_.columns);
  rows_.sum = dense_rows(outputs.sum, rows_.columns);
}

NormBackwardOperands::NormBackwardOperands(const NormArguments& call, const at::Tensor& grad_output,
                                           const at::Tensor& grad_sum, const at::Tensor& grad_input)
    : row_count_(row_count_of(call)),
      grad_output_(matrix_rows(grad_output, norm_columns(call))),
      grad_sum_(matrix_rows_or_none(grad_sum, norm_columns(call))),
      input_(matrix_rows(call.input, norm_columns(call))),
      weight_(dense_or_none(call.weight)) {
  rows_.columns = norm_columns(call);
  rows_.eps = call.eps_value();
  rows_.grad_output = rows_of(grad_output_);
  rows_.grad_sum = rows_of(grad_sum_);
  rows_.input = rows_of(input_);
  rows_.weight = data_or_none(weight_);
  rows_.grad_input = dense_rows(grad_input, rows_.columns);
}

at::Tensor parameter_gradient(const NormArguments& call, const at::Tensor& parameter,
                              const at::Tensor& sums) {
  if (!sums.defined()) return at::empty({0}, call.input.options());
  const at::Tensor total = sums.size(0) == 1 ? sums : sums.sum(0);
  return total.to(parameter.scalar_type()).view(parameter.sizes());
}

}  // namespace scramjet::ops
