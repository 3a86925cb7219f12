#pragma once

#include <ATen/core/Dict.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Device.h>
#include <torch/arg.h>

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "amp/optimizer_step.h"

namespace torch::optim {
class Optimizer;
}  // namespace torch::optim

namespace torch::serialize {
class InputArchive;
class OutputArchive;
}  // namespace torch::serialize

namespace scramjet::amp {

/// Fluent, as libtorch's options are: GradScalerOptions().init_scale(1024).growth_interval(500).
struct GradScalerOptions {
  /// The scale before the first update().
  TORCH_ARG(double, init_scale) = 65536.;
  /// What the scale is multiplied by after growth_interval steps without inf or NaN; > 1.
  TORCH_ARG(double, growth_factor) = 2.;
  /// What the scale is multiplied by after an inf or NaN; < 1.
  TORCH_ARG(double, backoff_factor) = .5;
  TORCH_ARG(int64_t, growth_interval) = 2000;
  /// A disabled scaler steps the optimizer and does nothing else.
  TORCH_ARG(bool, enabled) = true;
};

/// torch.amp.GradScaler for C++: multiplies the loss so that small float16 gradients do not round
/// to 0, divides the gradients again, skips a step whose gradients overflowed, and keeps looking
/// for the largest scale that does not overflow.
///
/// When to use: training under autocast to float16. bfloat16 has float32's range and needs none.
///
///     GradScaler scaler(at::kCUDA);
///     for (const auto& [input, target] : batches) {
///       optimizer.zero_grad();
///       scaler.scale(loss_of(input, target)).backward();
///       scaler.unscale_(optimizer);  // only where the gradients are clipped or looked at
///       torch::nn::utils::clip_grad_norm_(model->parameters(), 1.);
///       scaler.step(optimizer);
///       scaler.update();
///     }
///
/// Rules:
/// - Each iteration: scale() every loss; then for each optimizer unscale_() at most once and step()
///   once; then update() once. Any other order is an error that says so; nothing was changed by the
///   refused call, and after update() the scaler goes on.
/// - An optimizer is known by its address between the first unscale_() or step() and update().
/// - Only step() of a plain optimizer, get_scale(), get_growth_tracker() and the saving functions
///   wait for the device.
/// - Parameters, hence gradients, must not be float16 (bfloat16, float32 and float64 are fine),
///   except for a FusedOptimizer that unscales by itself.
/// - The scale never becomes inf: growth stops at the last finite value. After some 150 bad steps
///   one after another it may be 0, and then 0-gradients turn into 0 * inf = NaN after the check,
///   as in Python: where get_scale() falls below 1, look for the cause.
/// - One thread at a time, as for the optimizers themselves.
class GradScaler {
 public:
  using LossClosure = std::function<at::Tensor()>;
  using FoundInf = std::unordered_map<at::Device, at::Tensor>;

  /// Enabled for CUDA on a machine without CUDA: warns and is disabled.
  explicit GradScaler(at::DeviceType device = at::kCUDA, GradScalerOptions options = {});

  GradScaler(GradScaler&&) noexcept = default;
  GradScaler& operator=(GradScaler&&) noexcept = default;

  /// The product with the scale, on the output's device; type promotion as in `output * scale`
  /// (a 0-dim float16 loss becomes float32). The first call puts the scale on the output's device.
  at::Tensor scale(const at::Tensor& output);
  std::vector<at::Tensor> scale(const std::vector<at::Tensor>& outputs);
  /// A tensor, or lists, tuples and dicts of such, nested; keeps the structure and its types, and
  /// the keys of dicts.
  c10::IValue scale(const c10::IValue& outputs);

  /// Divides the gradients by the scale in place and notes whether one is inf or NaN.
  void unscale_(torch::optim::Optimizer& optimizer);
  /// For parameters without a torch::optim::Optimizer; known by the first parameter between here
  /// and update().
  void unscale_(const std::vector<at::Tensor>& parameters);

  /// unscale_(), unless that was called before, then optimizer.step() unless a gradient is inf or
  /// NaN. A closure is for a disabled scaler; an enabled one refuses it.
  StepResult step(torch::optim::Optimizer& optimizer, LossClosure closure = nullptr);
  /// The same for a step of the caller's own: `apply` reads the unscaled gradients.
  StepResult step(const std::vector<at::Tensor>& parameters, const std::function<void()>& apply);

  /// Ends the iteration: backs the scale off where a gradient was inf or NaN, counts towards growth
  /// otherwise.
  void update();
  /// Ends the iteration with this scale; a tensor has one element, is of the scaler's device type
  /// and requires no gradient.
  void update(double new_scale);
  void update(const at::Tensor& new_scale);

  /// 1 where disabled.
  double get_scale() const;
  double get_growth_factor() const { return options_.growth_factor(); }
  void set_growth_factor(double factor) { options_.growth_factor(factor); }
  double get_backoff_factor() const { return options_.backoff_factor(); }
  void set_backoff_factor(double factor) { options_.backoff_factor(factor); }
  int64_t get_growth_interval() const { return options_.growth_interval(); }
  void set_growth_interval(int64_t interval) { options_.growth_interval(interval); }
  /// Steps without inf or NaN since the scale last changed; 0 where disabled.
  int64_t get_growth_tracker() const;
  bool is_enabled() const { return options_.enabled(); }

  /// Looks for inf and NaN without unscaling (float16 is fine here): a 0-dim float32 for each
  /// device with gradients, 0 where all are finite. For optimizers that unscale by themselves.
  FoundInf check_inf_per_device(torch::optim::Optimizer& optimizer);
  /// What the last unscale_(), step() or check_inf_per_device() of this iteration found.
  FoundInf found_inf_per_device(const torch::optim::Optimizer& optimizer) const;

  /// Gets a 0-dim float32 on the scale's device, 0 where this process's gradients are finite, and
  /// returns such a one: what all processes shall go by.
  using FoundInfAgreement = std::function<at::Tensor(const at::Tensor& found_inf)>;
  /// For training in several processes (synchronize_scaler of amp/distributed.h sets it): called
  /// once wherever gradients are checked, also where there are none. nullptr: each on its own.
  void set_found_inf_agreement(FoundInfAgreement agreement) { agreement_ = std::move(agreement); }

  /// The entries of Python's state_dict(): scale, growth_factor, backoff_factor, growth_interval,
  /// _growth_tracker; empty where disabled. Call it after update().
  c10::impl::GenericDict state_dict() const;
  /// Takes all entries or, on an error, none. Nothing to do where disabled.
  void load_state_dict(const c10::impl::GenericDict& state);

  /// The file of Python's `torch.save(scaler.state_dict(), path)`, which `torch.load(path)` reads.
  void save_state_dict(const std::string& path) const;
  void load_state_dict_file(const std::string& path);

  /// libtorch's archives: torch::save(scaler, path), torch::load(scaler, path).
  void save(torch::serialize::OutputArchive& archive) const;
  void load(torch::serialize::InputArchive& archive);

 private:
  enum class Stage { kReady, kUnscaled, kStepped };

  struct OptimizerState {
    Stage stage = Stage::kReady;
    FoundInf found_inf;
  };

  /// The parameter lists of an optimizer's groups.
  using ParameterLists = std::vector<const std::vector<at::Tensor>*>;

  /// The scale; puts it on this device where it does not exist yet.
  const at::Tensor& scale_for(at::Device device);
  void check_scaled(const char* call) const;
  void unscale_(OptimizerState& state, const ParameterLists& parameters, const char* call);
  /// False where a gradient is inf or NaN. Waits for the device.
  bool prepare_step(OptimizerState& state, const ParameterLists& parameters);
  static void check_not_stepped(const OptimizerState& state);
  FoundInf agreed(FoundInf found_inf) const;
  StepResult step_fused(FusedOptimizer& fused, OptimizerState& state,
                        const ParameterLists& parameters);
  at::Tensor found_inf_on_scale_device(const FoundInf& found_inf) const;

  at::DeviceType device_;
  GradScalerOptions options_;
  FoundInfAgreement agreement_;
  int64_t init_growth_tracker_ = 0;
  at::Tensor scale_;           // 0-dim float32; undefined before the first scale()
  at::Tensor growth_tracker_;  // 0-dim int32, defined where scale_ is
  std::unordered_map<const void*, OptimizerState> states_;
};

torch::serialize::OutputArchive& operator<<(torch::serialize::OutputArchive& archive,
                                            const GradScaler& scaler);
torch::serialize::InputArchive& operator>>(torch::serialize::InputArchive& archive,
                                           GradScaler& scaler);

}  // namespace scramjet::amp
