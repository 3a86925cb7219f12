// The state machine: who may be called when, several optimizers and losses, what a step reports.
// Gradients, fused optimizers, saving: the other grad_scaler_*_test.cc.
#include "amp/grad_scaler.h"

#include <ATen/Context.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

#include <limits>
#include <type_traits>

#include "amp/raises.h"

namespace scramjet::amp {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

static_assert(std::is_nothrow_move_constructible_v<GradScaler>);
static_assert(!std::is_copy_constructible_v<GradScaler>);

GradScalerOptions starting_at(double scale) { return GradScalerOptions().init_scale(scale); }

/// One output unit and the SGD that trains it.
struct Unit {
  at::Tensor weight = at::full({1, 3}, .25).requires_grad_();
  at::Tensor bias = at::zeros({1}).requires_grad_();
  torch::optim::SGD optimizer{std::vector<at::Tensor>{weight, bias}, torch::optim::SGDOptions(.1)};

  at::Tensor loss() const { return at::linear(at::ones({1, 3}), weight, bias).sum(); }
};

TEST(GradScalerOrder, EveryMisuseIsAnErrorAndTheScalerGoesOn) {
  Unit unit;
  Unit idle;
  GradScaler scaler(at::kCPU, starting_at(8));
  EXPECT_TRUE(raises("Attempted update but _scale is None", [&] { scaler.update(); }));
  EXPECT_TRUE(raises("Attempted update but _scale is None", [&] { scaler.update(2.); }));
  EXPECT_TRUE(
      raises("Attempted unscale_ but _scale is None", [&] { scaler.unscale_(unit.optimizer); }));
  EXPECT_TRUE(raises("Attempted step but _scale is None", [&] { scaler.step(unit.optimizer); }));
  EXPECT_TRUE(raises("Attempted check_inf_per_device but _scale is None",
                     [&] { scaler.check_inf_per_device(unit.optimizer); }));
  for (int iteration = 0; iteration < 2; ++iteration) {
    unit.optimizer.zero_grad();
    scaler.scale(unit.loss()).backward();
    EXPECT_TRUE(raises("No inf checks were recorded prior to update", [&] { scaler.update(); }));
    scaler.unscale_(unit.optimizer);
    EXPECT_TRUE(raises("unscale_() has already been called on this optimizer since the last update",
                       [&] { scaler.unscale_(unit.optimizer); }));
    EXPECT_TRUE(raises("No inf checks were recorded for this optimizer",
                       [&] { scaler.step(idle.optimizer); }));
    EXPECT_TRUE(scaler.step(unit.optimizer).updated());
    EXPECT_TRUE(raises("step() has already been called", [&] { scaler.step(unit.optimizer); }));
    EXPECT_TRUE(raises("unscale_() is being called after step()",
                       [&] { scaler.unscale_(unit.optimizer); }));
    scaler.update();
  }
  // Two steps of .1 with gradient 1, whatever was tried in between.
  EXPECT_FLOAT_EQ(unit.bias.item<float>(), -.2F);
  EXPECT_TRUE(raises("Closure use is not currently supported",
                     [&] { scaler.step(unit.optimizer, [&] { return unit.loss(); }); }));
}

TEST(GradScalerOrder, AStepThatThrowsCanBeRepeated) {
  Unit unit;
  GradScaler scaler(at::kCPU, starting_at(8));
  scaler.scale(unit.loss()).backward();
  const std::vector<at::Tensor> parameters = {unit.weight, unit.bias};
  EXPECT_THROW(scaler.step(parameters, [] { throw std::runtime_error("disk"); }),
               std::runtime_error);
  int applied = 0;
  EXPECT_TRUE(scaler.step(parameters, [&] { ++applied; }).updated());
  EXPECT_EQ(applied, 1);
  EXPECT_FLOAT_EQ(unit.bias.grad().item<float>(), 1.F);  // unscaled once
}

TEST(GradScalerOrder, AnErrorNamesTheCallAndTheFix) {
  Unit unit;
  GradScaler scaler(at::kCPU);
  EXPECT_TRUE(raises("GradScaler.step(): ", [&] { scaler.step(unit.optimizer); }));
  EXPECT_TRUE(raises("call scale(loss) and backward()", [&] { scaler.step(unit.optimizer); }));
  scaler.scale(unit.loss()).backward();
  scaler.step(unit.optimizer);
  EXPECT_TRUE(raises("call update() once per iteration", [&] { scaler.step(unit.optimizer); }));
}

TEST(GradScaler, DisabledOnlySteps) {
  Unit unit;
  GradScaler scaler(at::kCPU, GradScalerOptions().enabled(false));
  const at::Tensor loss = unit.loss();
  EXPECT_TRUE(scaler.scale(loss).is_same(loss));
  EXPECT_TRUE(scaler.scale(std::vector<at::Tensor>{loss}).front().is_same(loss));
  EXPECT_TRUE(scaler.scale(c10::IValue("text")).isString());
  EXPECT_EQ(scaler.get_scale(), 1);
  EXPECT_EQ(scaler.get_growth_tracker(), 0);
  EXPECT_FALSE(scaler.is_enabled());
  loss.backward();
  for (int i = 0; i < 2; ++i) {
    scaler.unscale_(unit.optimizer);
    EXPECT_TRUE(scaler.step(unit.optimizer).updated());
  }
  scaler.update();
  scaler.update(3.);
  scaler.update(at::ones({5}));
  EXPECT_FLOAT_EQ(unit.bias.item<float>(), -.2F);
  EXPECT_TRUE(scaler.check_inf_per_device(unit.optimizer).empty());
  const StepResult result = scaler.step(unit.optimizer, [&] { return unit.loss(); });
  EXPECT_TRUE(result.updated());
  EXPECT_TRUE(result.loss().defined());
  int applied = 0;
  EXPECT_TRUE(scaler.step({unit.weight}, [&] { ++applied; }).updated());
  EXPECT_EQ(applied, 1);
}

TEST(GradScaler, EnabledForCudaWithoutCudaIsDisabled) {
  if (at::hasCUDA()) GTEST_SKIP() << "needs a machine without CUDA";
  EXPECT_FALSE(GradScaler().is_enabled());
  EXPECT_EQ(GradScaler().get_scale(), 1);
}

TEST(GradScaler, RefusesFactorsThatDoNotGrowOrBackOff) {
  EXPECT_TRUE(raises("The growth factor must be > 1.0",
                     [] { GradScaler(at::kCPU, GradScalerOptions().growth_factor(1)); }));
  EXPECT_TRUE(raises("The backoff factor must be < 1.0",
                     [] { GradScaler(at::kCPU, GradScalerOptions().backoff_factor(1)); }));
  GradScaler(at::kCPU, GradScalerOptions().growth_factor(1).enabled(false));
}

TEST(GradScaler, SettersTakeEffect) {
  Unit unit;
  GradScaler scaler(at::kCPU, starting_at(8));
  scaler.set_growth_factor(4);
  scaler.set_backoff_factor(.25);
  scaler.set_growth_interval(1);
  EXPECT_EQ(scaler.get_growth_factor(), 4);
  EXPECT_EQ(scaler.get_backoff_factor(), .25);
  EXPECT_EQ(scaler.get_growth_interval(), 1);
  const auto iterate = [&](double factor) {
    unit.optimizer.zero_grad();
    scaler.scale(unit.loss() * factor).backward();
    scaler.step(unit.optimizer);
    scaler.update();
    return scaler.get_scale();
  };
  EXPECT_EQ(iterate(1), 32);
  EXPECT_EQ(iterate(kNaN), 8);
  scaler.set_growth_interval(2);
  EXPECT_EQ(iterate(1), 8);
  EXPECT_EQ(scaler.get_growth_tracker(), 1);
  GradScaler moved = std::move(scaler);
  EXPECT_EQ(moved.get_growth_tracker(), 1);
  EXPECT_EQ(moved.get_scale(), 8);
}

// An inf skips the optimizer that met it and no other; the scale backs off once.
TEST(GradScaler, TwoOptimizers) {
  Unit a;
  Unit b;
  GradScaler scaler(at::kCPU, starting_at(16).growth_interval(2));
  const auto iterate = [&](double factor, bool updates_a, double scale) {
    a.optimizer.zero_grad();
    b.optimizer.zero_grad();
    scaler.scale(a.loss() * factor).backward();
    scaler.scale(b.loss()).backward();
    const at::Tensor weight_a = a.weight.detach().clone();
    const at::Tensor weight_b = b.weight.detach().clone();
    scaler.unscale_(a.optimizer);
    const StepResult step_a = scaler.step(a.optimizer);
    const StepResult step_b = scaler.step(b.optimizer);
    scaler.update();
    EXPECT_EQ(step_a.updated(), updates_a);
    EXPECT_TRUE(step_b.updated());
    EXPECT_EQ(!a.weight.equal(weight_a), updates_a);
    EXPECT_FALSE(b.weight.equal(weight_b));
    EXPECT_EQ(scaler.get_scale(), scale);
  };
  iterate(1, true, 16);
  iterate(kInf, false, 8);
  iterate(kNaN, false, 4);
  iterate(1, true, 4);
  iterate(1, true, 8);  // growth_interval good steps in a row
  EXPECT_TRUE(a.weight.isfinite().all().item<bool>());
}

// Two losses reach one optimizer's parameters, the second retains no graph of the first.
TEST(GradScaler, SeveralLossesAddUp) {
  Unit unit;
  GradScaler scaler(at::kCPU, starting_at(16));
  const std::vector<at::Tensor> losses = scaler.scale({unit.loss(), unit.loss() * 2});
  losses[0].backward();
  losses[1].backward();
  EXPECT_FLOAT_EQ(unit.bias.grad().item<float>(), 48.F);
  scaler.step(unit.optimizer);
  EXPECT_FLOAT_EQ(unit.bias.grad().item<float>(), 3.F);
}

// Finite in float32 until the scale makes it inf: the scale comes down until it no longer does.
TEST(GradScaler, TheScaleItselfMayOverflow) {
  Unit unit;
  GradScaler scaler(at::kCPU, starting_at(16));
  for (const double scale : {16., 8., 4., 2.}) {
    EXPECT_EQ(scaler.get_scale(), scale);
    unit.optimizer.zero_grad();
    scaler.scale(unit.loss() * 1e38).backward();
    EXPECT_EQ(scaler.step(unit.optimizer).skipped(), scale > 2);
    scaler.update();
  }
  EXPECT_EQ(scaler.get_scale(), 2);
  EXPECT_TRUE(unit.weight.isfinite().all().item<bool>());
}

TEST(GradScaler, UpdateWithANewScale) {
  Unit unit;
  GradScaler scaler(at::kCPU, starting_at(16));
  scaler.scale(unit.loss()).backward();
  scaler.update(3.);
  EXPECT_EQ(scaler.get_scale(), 3);
  scaler.update(4);
  EXPECT_EQ(scaler.get_scale(), 4);
  const at::Tensor five = at::full({1}, 5, at::kDouble);
  scaler.update(five);
  five.fill_(6);
  EXPECT_EQ(scaler.get_scale(), 5);
  const char* const reason = "new_scale should be a float or a 1-element";
  EXPECT_TRUE(raises(reason, [&] { scaler.update(at::ones({2})); }));
  EXPECT_TRUE(raises(reason, [&] { scaler.update(at::ones({}).requires_grad_()); }));
  EXPECT_TRUE(raises(reason, [&] { scaler.update(at::ones({}, at::Device(at::kMeta))); }));
  EXPECT_TRUE(raises(reason, [&] { scaler.update(at::Tensor()); }));
  EXPECT_EQ(scaler.get_scale(), 5);
}

TEST(GradScaler, ScalesNestedOutputs) {
  GradScaler scaler(at::kCPU, starting_at(8));
  c10::List<at::Tensor> list({at::ones({1}), at::ones({2}, at::kHalf)});
  c10::Dict<std::string, at::Tensor> dict;
  dict.insert("k", at::ones({2}));
  const c10::IValue outputs =
      c10::ivalue::Tuple::create({at::ones({}), list, c10::ivalue::Tuple::create({dict})});
  const auto scaled = scaler.scale(outputs).toTuple();
  EXPECT_EQ(scaled->elements()[0].toTensor().item<float>(), 8);
  EXPECT_EQ(scaled->elements()[1].toTensorList().get(0).item<float>(), 8);
  EXPECT_EQ(scaled->elements()[1].toTensorList().get(1).scalar_type(), at::kHalf);
  const auto inner = scaled->elements()[2].toTuple()->elements()[0].toGenericDict();
  EXPECT_TRUE(inner.at("k").toTensor().equal(at::full({2}, 8.)));
  EXPECT_EQ(list.get(0).item<float>(), 1);  // the caller's list is as it was
  EXPECT_TRUE(raises<c10::ValueError>("outputs must be a Tensor or an iterable of Tensors",
                                      [&] { scaler.scale(c10::IValue("text")); }));
  EXPECT_TRUE(raises<c10::ValueError>("outputs must be a Tensor or an iterable of Tensors",
                                      [&] { scaler.scale(c10::IValue()); }));
  EXPECT_TRUE(raises<c10::ValueError>("undefined", [&] { scaler.scale(at::Tensor()); }));
}

// `loss * scale` promotes: a 0-dim half meets a 0-dim float.
TEST(GradScaler, AHalfLossBecomesFloat) {
  GradScaler scaler(at::kCPU);
  const at::Tensor scaled = scaler.scale(at::ones({}, at::kHalf));
  EXPECT_EQ(scaled.scalar_type(), at::kFloat);
  EXPECT_EQ(scaled.item<float>(), 65536);
  EXPECT_EQ(scaler.scale(at::ones({1}, at::kHalf)).scalar_type(), at::kHalf);
}

TEST(GradScaler, StepsParametersWithoutAnOptimizer) {
  Unit unit;
  GradScaler scaler(at::kCPU, starting_at(16));
  const std::vector<at::Tensor> parameters = {unit.weight, unit.bias};
  int applied = 0;
  const auto apply = [&] { ++applied; };
  scaler.scale(unit.loss()).backward();
  scaler.unscale_(parameters);
  EXPECT_FLOAT_EQ(unit.bias.grad().item<float>(), 1.F);
  EXPECT_TRUE(scaler.step(parameters, apply).updated());
  EXPECT_TRUE(raises("step() has already been called", [&] { scaler.step(parameters, apply); }));
  scaler.update();
  unit.optimizer.zero_grad();
  scaler.scale(unit.loss() * kInf).backward();
  EXPECT_TRUE(scaler.step(parameters, apply).skipped());
  scaler.update();
  EXPECT_EQ(applied, 1);
  EXPECT_EQ(scaler.get_scale(), 8);
  EXPECT_TRUE(raises("No inf checks were recorded", [&] { scaler.step({}, apply); }));
}

}  // namespace
}  // namespace scramjet::amp
