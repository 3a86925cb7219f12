#include "ops/loss/linear_loss.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

namespace scramjet::ops {
namespace {

/// How many rows go at a time: few, since their logits are all the memory there is besides the
/// operands and gradients; enough for the products, which read the weight each time, and for the
/// weight's gradient, which is rounded each time.
int64_t rows_of_a_part(int64_t rows, int64_t row_bytes, bool is_cpu) {
  constexpr int64_t kLeastRows = 128;
  constexpr int64_t kMostParts = 32;
  const int64_t bytes = int64_t{is_cpu ? 64 : 256} << 20;
  const int64_t wanted = std::max(
      {bytes / std::max<int64_t>(row_bytes, 1), kLeastRows, (rows + kMostParts - 1) / kMostParts});
  const int64_t parts = (rows + wanted - 1) / wanted;
  return (rows + parts - 1) / parts;
}

/// The gradients as they grow part by part.
class GradientSums {
 public:
  GradientSums(const LinearLossArguments& call, const WantedGradients& wanted)
      : call_(call), wanted_{wanted[0], wanted[1], wanted[2] && call.bias.defined()} {
    const auto empty = [&](bool is_wanted, const at::Tensor& x) {
      return is_wanted ? empty_output(x.sizes(), x.options())
                       : at::empty({0}, call.input.options());
    };
    sums_ = {empty(wanted[0], call.input), empty(wanted[1], call.weight),
             at::empty({0}, call.input.options())};
    if (wanted_[2]) {
      bias_ = at::zeros(call.bias.sizes(),
                        call.bias.options().dtype(compute_dtype(call.bias.scalar_type())));
    }
    if (wanted[1] && call.input.size(0) == 0) sums_.weight.zero_();
  }

  /// Of the rows from `begin` on; `grad_logits` is theirs.
  void add(int64_t begin, const at::Tensor& grad_logits) {
    const int64_t count = grad_logits.size(0);
    if (wanted_[0]) {
      at::Tensor part = sums_.input.narrow(0, begin, count);
      at::mm_out(part, grad_logits, call_.weight);
    }
    if (wanted_[1]) {
      const at::Tensor input = call_.input.narrow(0, begin, count);
      if (begin == 0) {
        at::mm_out(sums_.weight, grad_logits.t(), input);
      } else {
        sums_.weight.addmm_(grad_logits.t(), input);
      }
    }
    if (wanted_[2]) bias_.add_(grad_logits.sum(0, /*keepdim=*/false, bias_.scalar_type()));
  }

  LinearLossGradients take() {
    if (wanted_[2]) sums_.bias = bias_.to(call_.bias.scalar_type());
    return sums_;
  }

 private:
  const LinearLossArguments& call_;
  WantedGradients wanted_;
  LinearLossGradients sums_;
  at::Tensor bias_;  // In the type that its dtype computes in.
};

/// Runs the kernel for part after part of the rows: `rows` has the operands of all but the logits,
/// which are made here, and are replaced by their gradients where there is `rows.grad`.
LinearLossGradients run_by_parts(const LinearLossArguments& call, const LossRows& rows,
                                 const WantedGradients& wanted, RunLossRows* run) {
  GradientSums sums(call, wanted);
  const int64_t count = call.input.size(0);
  if (count == 0) return sums.take();
  const int64_t row_bytes = rows.columns * call.input.element_size();
  const int64_t size = rows_of_a_part(count, row_bytes, call.input.is_cpu());
  const at::Tensor room = empty_output({size, rows.columns}, call.input.options());
  for (int64_t begin = 0; begin < count; begin += size) {
    at::Tensor logits = room.narrow(0, 0, std::min(size, count - begin));
    const at::Tensor input = call.input.narrow(0, begin, logits.size(0));
    if (call.bias.defined()) {
      at::addmm_out(logits, call.bias, input, call.weight.t());
    } else {
      at::mm_out(logits, input, call.weight.t());
    }
    LossRows part = rows;
    part.logits = {static_cast<char*>(logits.mutable_data_ptr()), rows.columns};
    part.target += begin;
    part.logsumexp += begin;
    if (rows.loss != nullptr) part.loss += begin;
    if (rows.grad != nullptr) {
      part.grad += begin;
      part.grad_logits = part.logits;
    }
    run(call.input.scalar_type(), part, logits.size(0));
    if (rows.grad != nullptr) sums.add(begin, logits);
  }
  return sums.take();
}

bool is_any(const WantedGradients& wanted) { return wanted[0] || wanted[1] || wanted[2]; }

}  // namespace

LinearLossOutputs linear_loss_by_rows(const LinearLossArguments& call,
                                      const WantedGradients& wanted, RunLossRows* run) {
  check_linear_loss(call);
  const at::Tensor target = call.target.contiguous();
  check_classes(call.op, target, call.options, call.weight.size(0));
  const auto wide = call.input.options().dtype(at::kDouble);
  const at::Tensor losses = at::empty(target.sizes(), wide);
  const at::Tensor logsumexp = at::empty_like(losses);
  const at::Tensor grads =
      is_any(wanted) ? row_gradients(at::ones({}, wide), target, call.options) : at::Tensor();
  LossRows rows = loss_rows_of(call.options, call.weight.size(0));
  rows.target = target.const_data_ptr<int64_t>();
  rows.loss = losses.mutable_data_ptr<double>();
  rows.logsumexp = logsumexp.mutable_data_ptr<double>();
  if (grads.defined()) rows.grad = grads.const_data_ptr<double>();
  const LinearLossGradients gradients = run_by_parts(call, rows, wanted, run);
  return {{reduce_losses(losses, target, call.options, call.loss_dtype()), logsumexp}, gradients};
}

LinearLossGradients linear_loss_backward_by_rows(const LinearLossArguments& call,
                                                 const at::Tensor& grad_output,
                                                 const at::Tensor& logsumexp,
                                                 const WantedGradients& wanted, RunLossRows* run) {
  check_linear_loss(call);
  check_loss_gradient(call.op, call.options, grad_output, call.target, logsumexp);
  const at::Tensor target = call.target.contiguous();
  check_classes(call.op, target, call.options, call.weight.size(0));
  const at::Tensor grads = row_gradients(grad_output, target, call.options);
  const at::Tensor sums = logsumexp.contiguous();
  LossRows rows = loss_rows_of(call.options, call.weight.size(0));
  rows.target = target.const_data_ptr<int64_t>();
  rows.logsumexp = const_cast<double*>(sums.const_data_ptr<double>());
  rows.grad = grads.const_data_ptr<double>();
  return run_by_parts(call, rows, wanted, run);
}

}  // namespace scramjet::ops
