#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>
#include <memory>
#include <vector>

#include "amp/distributed.h"
#include "amp/grad_scaler.h"
#include "amp/on_ranks.h"
#include "amp/raises.h"

namespace scramjet::amp {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr int kRanks = 2;

GradScaler scaler_of(double scale) {
  return GradScaler(at::kCPU, GradScalerOptions().init_scale(scale).growth_interval(2));
}

/// A parameter, an optimizer for it, and a scaler that agrees with the other ranks.
struct Trainer {
  explicit Trainer(const ProcessGroupPtr& group)
      : parameter(at::zeros({3}).set_requires_grad(true)),
        optimizer({parameter}, torch::optim::SGDOptions(1)),
        scaler(scaler_of(8)) {
    synchronize_scaler(scaler, group);
  }

  /// One step; a gradient of NaN stands for none at all.
  StepResult step(float gradient) {
    set_gradient(gradient);
    StepResult result = scaler.step(optimizer);
    scaler.update();
    return result;
  }

  void set_gradient(float gradient) {
    (void)scaler.scale(at::ones({}));
    parameter.mutable_grad() = std::isnan(gradient)
                                   ? at::Tensor()
                                   : at::full({3}, gradient * scaler.get_scale(), at::kFloat);
  }

  at::Tensor parameter;
  torch::optim::SGD optimizer;
  GradScaler scaler;
};

TEST(SynchronizeScaler, AllRanksSkipWhatOneSkips) {
  on_ranks(kRanks, [](int rank, const ProcessGroupPtr& group) {
    Trainer trainer(group);
    EXPECT_FALSE(trainer.step(rank == 1 ? kInf : 1.F).updated());
    EXPECT_EQ(trainer.scaler.get_scale(), 4);
    EXPECT_TRUE(trainer.parameter.equal(at::zeros({3})));
    EXPECT_TRUE(trainer.step(1).updated());
    EXPECT_TRUE(trainer.step(1).updated());
    EXPECT_EQ(trainer.scaler.get_scale(), 8);  // grown on both
    EXPECT_TRUE(trainer.parameter.equal(at::full({3}, -2, at::kFloat)));
  });
}

TEST(SynchronizeScaler, ARankWithoutGradientsGoesByTheOthers) {
  on_ranks(kRanks, [](int rank, const ProcessGroupPtr& group) {
    Trainer trainer(group);
    EXPECT_TRUE(trainer.step(rank == 0 ? NAN : 1.F).updated());
    EXPECT_FALSE(trainer.step(rank == 0 ? NAN : kInf).updated());
    EXPECT_EQ(trainer.scaler.get_scale(), 4);
  });
}

TEST(SynchronizeScaler, CoversEveryWayToAStep) {
  on_ranks(kRanks, [](int rank, const ProcessGroupPtr& group) {
    Trainer trainer(group);
    GradScaler& scaler = trainer.scaler;
    const float bad_on_1 = rank == 1 ? kInf : 1.F;

    trainer.set_gradient(bad_on_1);
    scaler.unscale_(trainer.optimizer);
    EXPECT_EQ(scaler.found_inf_per_device(trainer.optimizer).at(at::kCPU).item<float>(), 1);
    EXPECT_FALSE(scaler.step(trainer.optimizer).updated());
    scaler.update();
    EXPECT_EQ(scaler.get_scale(), 4);

    trainer.set_gradient(bad_on_1);
    EXPECT_FALSE(scaler.step({trainer.parameter}, [] { FAIL() << "applied"; }).updated());
    scaler.update();
    EXPECT_EQ(scaler.get_scale(), 2);

    trainer.set_gradient(bad_on_1);
    EXPECT_EQ(scaler.check_inf_per_device(trainer.optimizer).at(at::kCPU).item<float>(), 1);
    scaler.update();
    EXPECT_EQ(scaler.get_scale(), 1);
  });
}

/// Notes what it is told.
struct Fused : torch::optim::SGD, FusedOptimizer {
  explicit Fused(const at::Tensor& parameter)
      : torch::optim::SGD({parameter}, torch::optim::SGDOptions(1)) {}
  void step_scaled(const at::Tensor& /*grad_scale*/, const at::Tensor& found_inf) override {
    told = found_inf.item<float>();
  }
  float told = -1;
};

TEST(SynchronizeScaler, TellsFusedOptimizersWhatAllFound) {
  on_ranks(kRanks, [](int rank, const ProcessGroupPtr& group) {
    Trainer trainer(group);
    Fused fused(trainer.parameter);
    for (const bool unscaled : {false, true}) {
      for (const float bad : {kInf, 1.F}) {
        trainer.set_gradient(rank == 1 ? bad : 1.F);
        if (unscaled) trainer.scaler.unscale_(fused);
        trainer.scaler.step(fused);
        trainer.scaler.update();
        EXPECT_EQ(fused.told, bad == kInf ? 1 : 0);
      }
    }
  });
}

TEST(SynchronizeScaler, OneOptimizerMaySkipWhileAnotherSteps) {
  on_ranks(kRanks, [](int rank, const ProcessGroupPtr& group) {
    Trainer trainer(group);
    at::Tensor second = at::zeros({1}).set_requires_grad(true);
    torch::optim::SGD other({second}, torch::optim::SGDOptions(1));
    trainer.set_gradient(rank == 0 ? kInf : 1.F);
    second.mutable_grad() = at::full({1}, 8.F);
    EXPECT_FALSE(trainer.scaler.step(trainer.optimizer).updated());
    EXPECT_TRUE(trainer.scaler.step(other).updated());
    trainer.scaler.update();
    EXPECT_EQ(trainer.scaler.get_scale(), 4);
    EXPECT_EQ(second.item<float>(), -1);
  });
}

TEST(SynchronizeScaler, TakesTheStateOfRank0) {
  on_ranks(kRanks, [](int rank, const ProcessGroupPtr& group) {
    for (const bool scaled : {false, true}) {
      GradScaler scaler = rank == 0 ? GradScaler(at::kCPU, GradScalerOptions()
                                                               .init_scale(32)
                                                               .growth_factor(3)
                                                               .backoff_factor(.25)
                                                               .growth_interval(7))
                                    : scaler_of(8);
      if (scaled) (void)scaler.scale(at::ones({}));
      synchronize_scaler(scaler, group);
      EXPECT_EQ(scaler.get_scale(), 32);
      EXPECT_EQ(scaler.get_growth_factor(), 3);
      EXPECT_EQ(scaler.get_backoff_factor(), .25);
      EXPECT_EQ(scaler.get_growth_interval(), 7);
    }
  });
}

TEST(SynchronizeScaler, RefusesAScalerThatOnlySomeRanksEnable) {
  on_ranks(kRanks, [](int rank, const ProcessGroupPtr& group) {
    GradScaler scaler(at::kCPU, GradScalerOptions().enabled(rank == 0));
    EXPECT_TRUE(raises<c10::ValueError>("enabled on every rank or on none",
                                        [&] { synchronize_scaler(scaler, group); }));
    GradScaler disabled(at::kCPU, GradScalerOptions().enabled(false));
    synchronize_scaler(disabled, group);
  });
}

TEST(SynchronizeScaler, NoticesThatTheRanksAreOutOfStep) {
  on_ranks(kRanks, [](int rank, const ProcessGroupPtr& group) {
    Trainer trainer(group);
    trainer.set_gradient(1);
    EXPECT_TRUE(raises<c10::ValueError>("every rank should be in this call", [&] {
      if (rank == 0) average_gradients({trainer.parameter}, group);
      trainer.scaler.step(trainer.optimizer);
    }));
  });
}

TEST(SynchronizeScaler, OutlivesItsMoves) {
  on_ranks(kRanks, [](int rank, const ProcessGroupPtr& group) {
    Trainer trainer(group);
    GradScaler moved = std::move(trainer.scaler);
    trainer.scaler = std::move(moved);
    EXPECT_FALSE(trainer.step(rank == 1 ? kInf : 1.F).updated());
    trainer.scaler.set_found_inf_agreement(nullptr);
    EXPECT_EQ(trainer.step(rank == 1 ? kInf : 1.F).updated(), rank == 0);
  });
}

}  // namespace
}  // namespace scramjet::amp
