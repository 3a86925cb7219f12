#include "amp/grad_scaler.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <utility>

namespace scramjet::amp {
namespace {

/// Gradients that one _amp_foreach_non_finite_check_and_unscale_ takes.
struct GradientGroup {
  at::Device device;
  at::ScalarType dtype;
  std::vector<at::Tensor> gradients;
};

/// The dense tensor to unscale in a parameter's place, undefined where it has no gradient.
at::Tensor values_of_gradient(const at::Tensor& parameter, bool allow_fp16, const char* call) {
  at::Tensor& gradient = parameter.mutable_grad();
  if (!gradient.defined()) return {};
  TORCH_CHECK_VALUE(allow_fp16 || gradient.scalar_type() != at::kHalf, "GradScaler.", call,
                    "(): Attempting to unscale FP16 gradients. They overflow where the scale is "
                    "large; keep the parameters in float32 and leave float16 to autocast");
  if (!gradient.is_sparse()) return gradient;
  // Entries of one index add up in coalesce(): in float16 their sum may overflow where they do not.
  if (gradient.scalar_type() == at::kHalf) gradient = gradient.coalesce();
  return gradient._values();
}

std::vector<GradientGroup> by_device_and_dtype(
    const std::vector<const std::vector<at::Tensor>*>& parameters, bool allow_fp16,
    const char* call) {
  std::vector<GradientGroup> groups;
  for (const auto* list : parameters) {
    for (const at::Tensor& parameter : *list) {
      at::Tensor values = values_of_gradient(parameter, allow_fp16, call);
      if (!values.defined()) continue;
      const auto fits = [&](const GradientGroup& group) {
        return group.dtype == values.scalar_type() && group.device == values.device();
      };
      auto group = std::find_if(groups.begin(), groups.end(), fits);
      if (group == groups.end()) {
        group = groups.insert(groups.end(), {values.device(), values.scalar_type(), {}});
      }
      group->gradients.push_back(std::move(values));
    }
  }
  return groups;
}

/// Multiplies the gradients by `factor` in place. A device's flag is not 0 where one was not
/// finite.
GradScaler::FoundInf multiply_and_check(std::vector<GradientGroup> groups,
                                        const at::Tensor& factor) {
  GradScaler::FoundInf found_inf;
  std::unordered_map<at::Device, at::Tensor> factors;
  for (GradientGroup& group : groups) {
    at::Tensor& found = found_inf[group.device];
    at::Tensor& local_factor = factors[group.device];
    if (!found.defined()) {
      found = at::zeros({}, at::TensorOptions(at::kFloat).device(group.device));
      local_factor = factor.to(group.device, at::kFloat, /*non_blocking=*/true);
    }
    at::_amp_foreach_non_finite_check_and_unscale_(group.gradients, found, local_factor);
  }
  return found_inf;
}

std::vector<const std::vector<at::Tensor>*> parameter_lists(
    const torch::optim::Optimizer& optimizer) {
  std::vector<const std::vector<at::Tensor>*> lists;
  for (const auto& group : optimizer.param_groups()) lists.push_back(&group.params());
  return lists;
}

const void* key_of(const std::vector<at::Tensor>& parameters) {
  return parameters.empty() ? nullptr : parameters.front().unsafeGetTensorImpl();
}

}  // namespace

GradScaler::GradScaler(at::DeviceType device, GradScalerOptions options)
    : device_(device), options_(options) {
  if (options_.enabled() && device == at::kCUDA && !at::hasCUDA()) {
    TORCH_WARN("GradScaler is enabled for CUDA, but CUDA is not available.  Disabling.");
    options_.enabled(false);
  }
  if (!options_.enabled()) return;
  TORCH_CHECK(options_.growth_factor() > 1,
              "GradScaler: The growth factor must be > 1.0. Got growth_factor ",
              options_.growth_factor());
  TORCH_CHECK(options_.backoff_factor() < 1,
              "GradScaler: The backoff factor must be < 1.0. Got backoff_factor ",
              options_.backoff_factor());
}

void GradScaler::check_scaled(const char* call) const {
  TORCH_CHECK(scale_.defined(), "GradScaler.", call, "(): Attempted ", call,
              " but _scale is None: nothing has been scaled yet; call scale(loss) and backward() "
              "earlier in the iteration");
}

void GradScaler::unscale_(OptimizerState& state, const ParameterLists& parameters,
                          const char* call) {
  TORCH_CHECK(state.stage != Stage::kUnscaled,
              "GradScaler.unscale_(): unscale_() has already been called on this optimizer since "
              "the last update(); call it once, after the last backward() and before step()");
  TORCH_CHECK(state.stage != Stage::kStepped,
              "GradScaler.unscale_(): unscale_() is being called after step(); call it before "
              "step(), and update() before the next iteration");
  const at::NoGradGuard no_grad;
  // The reciprocal in double: on some devices float division is not exactly rounded.
  const at::Tensor factor = scale_.to(at::kDouble).reciprocal().to(at::kFloat);
  state.found_inf = agreed(
      multiply_and_check(by_device_and_dtype(parameters, /*allow_fp16=*/false, call), factor));
  state.stage = Stage::kUnscaled;
}

void GradScaler::unscale_(torch::optim::Optimizer& optimizer) {
  if (!is_enabled()) return;
  check_scaled("unscale_");
  unscale_(states_[&optimizer], parameter_lists(optimizer), "unscale_");
}

void GradScaler::unscale_(const std::vector<at::Tensor>& parameters) {
  if (!is_enabled()) return;
  check_scaled("unscale_");
  unscale_(states_[key_of(parameters)], {&parameters}, "unscale_");
}

void GradScaler::check_not_stepped(const OptimizerState& state) {
  TORCH_CHECK(state.stage != Stage::kStepped,
              "GradScaler.step(): step() has already been called for this optimizer since the last "
              "update(); call update() once per iteration, after the steps");
}

bool GradScaler::prepare_step(OptimizerState& state, const ParameterLists& parameters) {
  if (state.stage == Stage::kReady) unscale_(state, parameters, "step");
  TORCH_CHECK(!state.found_inf.empty(),
              "GradScaler.step(): No inf checks were recorded for this optimizer: none of its "
              "parameters has a gradient; call backward() on a scaled loss that reaches them");
  for (const auto& [device, found] : state.found_inf) {
    if (found.item<float>() != 0) return false;
  }
  return true;
}

StepResult GradScaler::step(torch::optim::Optimizer& optimizer, LossClosure closure) {
  if (!is_enabled()) return StepResult::updated_with(optimizer.step(std::move(closure)));
  TORCH_CHECK(!closure,
              "GradScaler.step(): Closure use is not currently supported if GradScaler is enabled. "
              "Run scale(loss).backward() before step(optimizer) in place of the closure");
  check_scaled("step");
  OptimizerState& state = states_[&optimizer];
  check_not_stepped(state);
  auto* const fused = dynamic_cast<FusedOptimizer*>(&optimizer);
  if (fused != nullptr && fused->step_supports_amp_scaling()) {
    return step_fused(*fused, state, parameter_lists(optimizer));
  }
  const bool finite = prepare_step(state, parameter_lists(optimizer));
  at::Tensor loss = finite ? optimizer.step() : at::Tensor();
  state.stage = Stage::kStepped;
  return finite ? StepResult::updated_with(std::move(loss)) : StepResult::skipped_step();
}

StepResult GradScaler::step(const std::vector<at::Tensor>& parameters,
                            const std::function<void()>& apply) {
  if (is_enabled()) {
    check_scaled("step");
    OptimizerState& state = states_[key_of(parameters)];
    check_not_stepped(state);
    const bool finite = prepare_step(state, {&parameters});
    if (finite) apply();
    state.stage = Stage::kStepped;
    return finite ? StepResult::updated_with({}) : StepResult::skipped_step();
  }
  apply();
  return StepResult::updated_with({});
}

StepResult GradScaler::step_fused(FusedOptimizer& fused, OptimizerState& state,
                                  const ParameterLists& parameters) {
  const bool unscaled = state.stage == Stage::kUnscaled;
  const at::NoGradGuard no_grad;
  if (!unscaled) {
    const at::Tensor one = at::full({}, 1., scale_.options());
    state.found_inf = agreed(
        multiply_and_check(by_device_and_dtype(parameters, /*allow_fp16=*/true, "step"), one));
  }
  at::Tensor found_inf = found_inf_on_scale_device(state.found_inf);
  if (!found_inf.defined()) found_inf = at::zeros({}, scale_.options());
  fused.step_scaled(unscaled ? at::Tensor() : scale_, found_inf);
  state.stage = Stage::kStepped;
  return StepResult::known_by(std::move(found_inf));
}

/// The sum over the devices, undefined where there is none. Never in place: a StepResult may still
/// hold one of the summands.
at::Tensor GradScaler::found_inf_on_scale_device(const FoundInf& found_inf) const {
  at::Tensor sum;
  for (const auto& [device, found] : found_inf) {
    const at::Tensor here = found.to(scale_.device(), at::kFloat, /*non_blocking=*/true);
    sum = sum.defined() ? sum.add(here) : here;
  }
  return sum;
}

/// Every device gets what the processes agreed on, and the scale's own one also where this process
/// had nothing to check: the others may have.
GradScaler::FoundInf GradScaler::agreed(FoundInf found_inf) const {
  if (!agreement_) return found_inf;
  at::Tensor own = found_inf_on_scale_device(found_inf);
  if (!own.defined()) own = at::zeros({}, scale_.options());
  const at::Tensor decision = agreement_(own);
  for (auto& [device, found] : found_inf) {
    found = decision.to(device, at::kFloat, /*non_blocking=*/true);
  }
  found_inf[scale_.device()] = decision;
  return found_inf;
}

void GradScaler::update() {
  if (!is_enabled()) return;
  check_scaled("update");
  at::Tensor found_inf;
  for (const auto& [optimizer, state] : states_) {
    const at::Tensor found = found_inf_on_scale_device(state.found_inf);
    if (found.defined()) found_inf = found_inf.defined() ? found_inf.add(found) : found;
  }
  TORCH_CHECK(found_inf.defined(),
              "GradScaler.update(): No inf checks were recorded prior to update. Call "
              "step(optimizer) after backward(), then update() once per iteration");
  at::_amp_update_scale_(scale_, growth_tracker_, found_inf, options_.growth_factor(),
                         options_.backoff_factor(), options_.growth_interval());
  states_.clear();
}

void GradScaler::update(double new_scale) {
  if (!is_enabled()) return;
  check_scaled("update");
  scale_.fill_(new_scale);
  states_.clear();
}

void GradScaler::update(const at::Tensor& new_scale) {
  if (!is_enabled()) return;
  check_scaled("update");
  TORCH_CHECK(new_scale.defined() && new_scale.device().type() == device_ &&
                  new_scale.numel() == 1 && !new_scale.requires_grad(),
              "GradScaler.update(): new_scale should be a float or a 1-element tensor on ",
              c10::DeviceTypeName(device_, /*lower_case=*/true), " with requires_grad=False, got ",
              new_scale.toString(), " of sizes ",
              new_scale.defined() ? new_scale.sizes() : at::IntArrayRef(),
              new_scale.defined() && new_scale.requires_grad() ? " that requires grad" : "");
  scale_.copy_(new_scale.reshape({}));
  states_.clear();
}

double GradScaler::get_scale() const {
  if (!is_enabled()) return 1;
  return scale_.defined() ? scale_.item<float>() : options_.init_scale();
}

int64_t GradScaler::get_growth_tracker() const {
  if (!is_enabled()) return 0;
  return growth_tracker_.defined() ? growth_tracker_.item<int>() : init_growth_tracker_;
}

GradScaler::FoundInf GradScaler::check_inf_per_device(torch::optim::Optimizer& optimizer) {
  if (!is_enabled()) return {};
  check_scaled("check_inf_per_device");
  const at::NoGradGuard no_grad;
  const at::Tensor one = at::full({}, 1., scale_.options());
  auto groups =
      by_device_and_dtype(parameter_lists(optimizer), /*allow_fp16=*/true, "check_inf_per_device");
  return states_[&optimizer].found_inf = agreed(multiply_and_check(std::move(groups), one));
}

GradScaler::FoundInf GradScaler::found_inf_per_device(
    const torch::optim::Optimizer& optimizer) const {
  const auto state = states_.find(&optimizer);
  return state == states_.end() ? FoundInf() : state->second.found_inf;
}

}  // namespace scramjet::amp
