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

/// Into how large parts `whole` goes, with `bytes` of logits for each: small ones, since a part's
/// logits are all the memory there is besides the operands and gradients, but of `least` or more,
/// since below that the matrix products lose speed.
int64_t part_of(int64_t whole, int64_t bytes, int64_t least, bool is_cpu) {
  constexpr int64_t kMostParts = 32;
  const int64_t room = int64_t{is_cpu ? 32 : 256} << 20;
  const int64_t wanted = std::max(room / std::max<int64_t>(bytes, 1), least);
  const int64_t parts = std::clamp<int64_t>(whole / wanted, 1, kMostParts);
  return (whole + parts - 1) / parts;
}

/// One call's way through its parts. All gradients are times `factor`: the products take it before
/// they round, where in the logits' gradients it would be rounded, and alike in every row.
class LinearLossRun {
 public:
  /// `rows`: the operands but for the logits, which are made here, and are replaced by their
  /// gradients where there is `rows.grad`.
  LinearLossRun(const LinearLossArguments& call, const LossRows& rows,
                const WantedGradients& wanted, double factor, RunLossRows* run)
      : call_(call), rows_(rows), wanted_(wanted), factor_(factor), run_(run) {
    wanted_[2] = wanted[2] && call.bias.defined();
    const auto empty = [&](bool is_wanted, const at::Tensor& x) {
      return is_wanted ? empty_output(x.sizes(), x.options())
                       : at::empty({0}, call.input.options());
    };
    made_ = {empty(wanted_[0], call.input), empty(wanted_[1], call.weight),
             wanted_[2] ? at::zeros(call.bias.sizes(), call.bias.options().dtype(
                                                           compute_dtype(call.bias.scalar_type())))
                        : at::empty({0}, call.input.options())};
  }

  LinearLossGradients operator()() {
    const int64_t count = call_.input.size(0);
    if (count == 0 || rows_.classes == 0) {
      made_.weight.zero_();
      made_.input.zero_();
      return made_;
    }
    constexpr int64_t kLeast = 192;
    constexpr int64_t kLeastWithoutGradients = 256;
    const bool is_cpu = call_.input.is_cpu();
    const int64_t bytes = call_.input.element_size();
    const int64_t part = part_of(count, rows_.classes * bytes,
                                 rows_.grad == nullptr ? kLeastWithoutGradients : kLeast, is_cpu);
    // A product that is rounded part by part would lose digits that eager's keeps. ATen's products
    // on CPU have no float result of half or bfloat16, and are fast: there the logits are computed
    // once more, for all rows and a part of the classes. On CUDA that would cost too much.
    const bool is_rounded = compute_dtype(call_.input.scalar_type()) != call_.input.scalar_type();
    const bool by_classes = wanted_[1] && is_cpu && is_rounded && part < count;
    const int64_t classes_part =
        by_classes ? part_of(rows_.classes, count * bytes, kLeast, is_cpu) : 0;
    room_ =
        empty_output({std::max(part * rows_.classes, count * classes_part)}, call_.input.options());
    over_rows(part, by_classes);
    if (by_classes) over_classes(classes_part);
    return made_;
  }

 private:
  /// The losses, and all gradients but the weight's where it comes later.
  void over_rows(int64_t size, bool weight_comes_later) {
    const bool with_weight = wanted_[1] && !weight_comes_later;
    const bool with_gradients = wanted_[0] || with_weight || wanted_[2];
    if (rows_.loss == nullptr && !with_gradients) return;
    const int64_t count = call_.input.size(0);
    for (int64_t begin = 0; begin < count; begin += size) {
      at::Tensor logits = room_for(std::min(size, count - begin), rows_.classes);
      const at::Tensor input = call_.input.narrow(0, begin, logits.size(0));
      compute_logits(input, call_.weight, call_.bias, logits);
      LossRows part = rows_;
      part.target += begin;
      part.logsumexp += begin;
      if (part.loss != nullptr) part.loss += begin;
      part.grad = with_gradients ? rows_.grad + begin : nullptr;
      run_kernel(part, logits);
      if (wanted_[0]) {
        made_.input.narrow(0, begin, logits.size(0))
            .addmm_(logits, call_.weight, /*beta=*/0, factor_);
      }
      if (with_weight) made_.weight.addmm_(logits.t(), input, /*beta=*/begin == 0 ? 0 : 1, factor_);
      if (wanted_[2]) {
        made_.bias.add_(logits.sum(0, /*keepdim=*/false, made_.bias.scalar_type()), factor_);
      }
    }
  }

  /// The gradient of the weight, with the logsumexp there.
  void over_classes(int64_t size) {
    const int64_t count = call_.input.size(0);
    for (int64_t begin = 0; begin < rows_.classes; begin += size) {
      const int64_t classes = std::min(size, rows_.classes - begin);
      at::Tensor logits = room_for(count, classes);
      compute_logits(call_.input, call_.weight.narrow(0, begin, classes),
                     call_.bias.defined() ? call_.bias.narrow(0, begin, classes) : call_.bias,
                     logits);
      LossRows part = rows_;
      part.columns = classes;
      part.first_class = begin;
      part.loss = nullptr;
      run_kernel(part, logits);
      made_.weight.narrow(0, begin, classes).addmm_(logits.t(), call_.input, /*beta=*/0, factor_);
    }
  }

  at::Tensor room_for(int64_t rows, int64_t columns) const {
    return room_.narrow(0, 0, rows * columns).view({rows, columns});
  }

  static void compute_logits(const at::Tensor& input, const at::Tensor& weight,
                             const at::Tensor& bias, at::Tensor& logits) {
    if (bias.defined()) {
      at::addmm_out(logits, bias, input, weight.t());
    } else {
      at::mm_out(logits, input, weight.t());
    }
  }

  void run_kernel(LossRows part, const at::Tensor& logits) const {
    part.logits = {static_cast<char*>(logits.mutable_data_ptr()), part.columns};
    part.grad_logits = part.logits;
    run_(logits.scalar_type(), part, logits.size(0));
  }

  const LinearLossArguments& call_;
  const LossRows& rows_;
  WantedGradients wanted_;
  double factor_;
  RunLossRows* run_;
  LinearLossGradients made_;
  at::Tensor room_;  // The logits of a part.
};

/// 1 over the rows that count, for a mean of a loss that has any.
double factor_of(const at::Tensor& target, const LossOptions& options) {
  if (!options.is_mean()) return 1;
  const auto count = row_count(target, options).item<double>();
  return count > 0 ? 1 / count : 0;
}

}  // namespace

LinearLossOutputs linear_loss_by_rows(const LinearLossArguments& call,
                                      const WantedGradients& wanted, RunLossRows* run) {
  check_linear_loss(call);
  const at::Tensor target = call.target.contiguous();
  check_classes(call.op, target, call.options, call.weight.size(0));
  const at::Tensor losses = at::empty(target.sizes(), call.input.options().dtype(at::kDouble));
  const at::Tensor logsumexp = at::empty_like(losses);
  LossRows rows = loss_rows_of(call.options, call.weight.size(0));
  rows.target = target.const_data_ptr<int64_t>();
  rows.loss = losses.mutable_data_ptr<double>();
  rows.logsumexp = logsumexp.mutable_data_ptr<double>();
  at::Tensor ones;
  double factor = 1;
  if (wanted[0] || wanted[1] || wanted[2]) {
    ones = at::ones(target.sizes(), losses.options());
    rows.grad = ones.const_data_ptr<double>();
    factor = factor_of(target, call.options);
  }
  const LinearLossGradients gradients = LinearLossRun(call, rows, wanted, factor, run)();
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
  LinearLossGradients made = LinearLossRun(call, rows, wanted, /*factor=*/1, run)();
  made.bias = made.bias.to(call.input.scalar_type());
  return made;
}

}  // namespace scramjet::ops
