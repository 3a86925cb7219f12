#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <utility>

namespace scramjet::amp {

/// What became of one GradScaler::step(): were the parameters updated or was the step skipped?
///
///     const StepResult result = scaler.step(optimizer);
///     scaler.update();
///     if (result.skipped()) ++skipped_steps;  // e.g. the scheduler stays where it is
///
/// Rules:
/// - A plain optimizer's result is known when step() returns. A FusedOptimizer's is still on the
///   device: the first question waits for it, and without a question nothing waits.
class StepResult {
 public:
  static StepResult updated_with(at::Tensor loss) { return {false, {}, std::move(loss)}; }
  static StepResult skipped_step() { return {true, {}, {}}; }
  static StepResult known_by(at::Tensor found_inf) { return {{}, std::move(found_inf), {}}; }

  /// True where an inf or NaN gradient kept the parameters as they were.
  bool skipped() const {
    if (!skipped_) skipped_ = found_inf_.item<float>() != 0;
    return *skipped_;
  }

  bool updated() const { return !skipped(); }

  /// What Optimizer::step returned: the closure's loss where the scaler is disabled and a closure
  /// was given, otherwise undefined.
  const at::Tensor& loss() const { return loss_; }

 private:
  StepResult(std::optional<bool> skipped, at::Tensor found_inf, at::Tensor loss)
      : skipped_(skipped), found_inf_(std::move(found_inf)), loss_(std::move(loss)) {}

  mutable std::optional<bool> skipped_;
  at::Tensor found_inf_;
  at::Tensor loss_;
};

/// An optimizer whose kernel unscales the gradients and skips on inf by itself, so that the host
/// never waits for the device. Python's counterpart is `_step_supports_amp_scaling`.
///
///     class FusedAdam : public torch::optim::Optimizer, public scramjet::amp::FusedOptimizer {
///       void step_scaled(const at::Tensor& grad_scale, const at::Tensor& found_inf) override;
///     };
///
/// at::_fused_adam_, at::_fused_adamw_, at::_fused_sgd_ and at::_fused_adagrad_ take both tensors
/// as they come here. GradScaler::step() finds the interface by dynamic_cast; a disabled scaler
/// calls Optimizer::step() as for any other optimizer.
class FusedOptimizer {
 public:
  virtual ~FusedOptimizer() = default;

  /// Steps with the gradients divided by `grad_scale`; where `found_inf` is not 0, neither
  /// parameters nor the optimizer's state (moments, step counters) may change.
  ///
  /// Both are 0-dim float32 on the scale's device, and only good during the call. An undefined
  /// `grad_scale` says that unscale_() came first: the gradients are to be used as they are.
  virtual void step_scaled(const at::Tensor& grad_scale, const at::Tensor& found_inf) = 0;

  /// False for an object of a fused class that was told not to fuse: it is stepped as a plain one.
  virtual bool step_supports_amp_scaling() const { return true; }
};

}  // namespace scramjet::amp
