#include "ops/loss/loss_by_rows.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/util/strides.h>

#include "ops/matrix_rows.h"
#include "runtime/output_memory.h"

namespace scramjet::ops {
namespace {

LossMatrix loss_matrix(const MatrixRows& x) {
  return {const_cast<char*>(static_cast<const char*>(x.owner.const_data_ptr())), x.stride};
}

}  // namespace

void check_classes(const char* op, const at::Tensor& target, const LossOptions& options,
                   int64_t classes) {
  if (!target.is_cpu()) return;
  const auto* data = target.const_data_ptr<int64_t>();
  for (int64_t row = 0; row < target.numel(); ++row) {
    const bool is_class = data[row] >= 0 && data[row] < classes;
    TORCH_CHECK_INDEX(is_class || data[row] == options.ignore_index, op,
                      ": argument 'target' has class ", data[row], " in row ", row,
                      "; expected 0 to ", classes - 1, ", or ignore_index, ", options.ignore_index);
  }
}

at::Tensor row_count(const at::Tensor& target, const LossOptions& options) {
  return target.ne(options.ignore_index).sum().to(at::kDouble);
}

at::Tensor reduce_losses(const at::Tensor& losses, const at::Tensor& target,
                         const LossOptions& options, at::ScalarType dtype) {
  if (!options.is_reduced()) return losses.to(dtype);
  const at::Tensor sum = losses.sum();
  return (options.is_mean() ? sum.div(row_count(target, options)) : sum).to(dtype);
}

at::Tensor row_gradients(const at::Tensor& grad_output, const at::Tensor& target,
                         const LossOptions& options) {
  at::Tensor grad = grad_output.to(at::kDouble);
  if (options.is_mean()) grad = grad.div(row_count(target, options));
  return grad.expand(target.sizes()).contiguous();
}

at::Tensor empty_output(at::IntArrayRef sizes, const at::TensorOptions& options) {
  if (!options.device().is_cpu()) return at::empty(sizes, options);
  return runtime::allocate_output(sizes, c10::contiguous_strides(sizes),
                                  options.dtype().toScalarType());
}

LossRows loss_rows_of(const LossOptions& options, int64_t columns) {
  LossRows rows;
  rows.columns = rows.classes = columns;
  rows.ignore_index = options.ignore_index;
  rows.label_smoothing = options.label_smoothing;
  rows.z_loss = options.z_loss;
  return rows;
}

LossOutputs loss_by_rows(const LossArguments& call, RunLossRows* run) {
  check_loss(call);
  const int64_t count = call.logits.size(0);
  const int64_t columns = call.logits.size(1);
  const at::Tensor target = call.target.contiguous();
  check_classes(call.op, target, call.options, columns);
  const at::Tensor losses = at::empty({count}, call.logits.options().dtype(at::kDouble));
  const at::Tensor logsumexp = at::empty_like(losses);
  if (count > 0) {
    const MatrixRows logits = matrix_rows(call.logits, columns);
    LossRows rows = loss_rows_of(call.options, columns);
    rows.logits = loss_matrix(logits);
    rows.target = target.const_data_ptr<int64_t>();
    rows.loss = losses.mutable_data_ptr<double>();
    rows.logsumexp = logsumexp.mutable_data_ptr<double>();
    run(call.logits.scalar_type(), rows, count);
  }
  return {reduce_losses(losses, target, call.options, call.loss_dtype()), logsumexp};
}

at::Tensor loss_backward_by_rows(const LossArguments& call, const at::Tensor& grad_output,
                                 const at::Tensor& logsumexp, RunLossRows* run) {
  check_loss(call);
  check_loss_gradient(call.op, call.options, grad_output, call.target, logsumexp);
  const int64_t columns = call.logits.size(1);
  const at::Tensor target = call.target.contiguous();
  check_classes(call.op, target, call.options, columns);
  at::Tensor result = empty_output(call.logits.sizes(), call.logits.options());
  if (result.numel() == 0) return result;
  const MatrixRows logits = matrix_rows(call.logits, columns);
  const at::Tensor grads = row_gradients(grad_output, target, call.options);
  const at::Tensor sums = logsumexp.contiguous();
  LossRows rows = loss_rows_of(call.options, columns);
  rows.logits = loss_matrix(logits);
  rows.target = target.const_data_ptr<int64_t>();
  rows.logsumexp = const_cast<double*>(sums.const_data_ptr<double>());
  rows.grad = grads.const_data_ptr<double>();
  rows.grad_logits = {static_cast<char*>(result.mutable_data_ptr()), columns};
  run(call.logits.scalar_type(), rows, call.logits.size(0));
  return result;
}

}  // namespace scramjet::ops
