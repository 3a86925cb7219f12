// An optimizer that takes grad_scale and found_inf: equal to the plain one, without waiting.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>

#include <limits>
#include <memory>
#include <optional>

#include "amp/grad_scaler.h"

namespace scramjet::amp {
namespace {

constexpr double kLearningRate = 1e-2;

/// Adam or AdamW over ATen's fused kernels, as torch.optim's fused=True calls them.
class FusedAdam : public torch::optim::Optimizer, public FusedOptimizer {
 public:
  FusedAdam(std::vector<at::Tensor> parameters, bool decoupled)
      : Optimizer(std::move(parameters),
                  std::make_unique<torch::optim::AdamOptions>(kLearningRate)),
        decoupled_(decoupled) {
    for (const at::Tensor& parameter : trained()) {
      means_.push_back(at::zeros_like(parameter));
      squares_.push_back(at::zeros_like(parameter));
      steps_.push_back(at::zeros({}));
    }
  }

  at::Tensor step(LossClosure /*closure*/ = nullptr) override {
    step_scaled({}, {});
    return {};
  }

  void step_scaled(const at::Tensor& grad_scale, const at::Tensor& found_inf) override {
    const at::NoGradGuard no_grad;
    ++calls;
    last_grad_scale = grad_scale;
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& parameter : trained()) {
      if (!parameter.grad().defined()) return;
      gradients.push_back(parameter.grad());
    }
    const auto optional = [](const at::Tensor& tensor) {
      return tensor.defined() ? std::optional(tensor) : std::nullopt;
    };
    // The counter goes up before the kernel, which reads it, and down again where it did nothing.
    at::_foreach_add_(steps_, 1);
    const auto call = [&](auto* fused, double weight_decay) {
      fused(trained(), gradients, means_, squares_, {}, steps_, kLearningRate, .9, .999,
            weight_decay, 1e-8, /*amsgrad=*/false, /*maximize=*/false, optional(grad_scale),
            optional(found_inf));
    };
    if (decoupled_) {
      call(&at::_ops::_fused_adamw_::call, 1e-2);
    } else {
      call(&at::_ops::_fused_adam_::call, 0);
    }
    if (found_inf.defined()) {
      at::_foreach_sub_(steps_, std::vector<at::Tensor>(steps_.size(), found_inf));
    }
  }

  bool step_supports_amp_scaling() const override { return fused; }

  const std::vector<at::Tensor>& trained() const { return param_groups_.front().params(); }
  const std::vector<at::Tensor>& means() const { return means_; }
  const std::vector<at::Tensor>& squares() const { return squares_; }
  const std::vector<at::Tensor>& steps() const { return steps_; }

  int calls = 0;
  at::Tensor last_grad_scale;
  bool fused = true;

 private:
  bool decoupled_;
  std::vector<at::Tensor> means_;
  std::vector<at::Tensor> squares_;
  std::vector<at::Tensor> steps_;
};

/// Linear(4, 8), ReLU, Linear(8, 1), the same each time.
struct Net {
  at::Tensor weight1 = at::linspace(-1, 1, 32).sin().reshape({8, 4}).requires_grad_();
  at::Tensor bias1 = at::linspace(-.5, .5, 8).requires_grad_();
  at::Tensor weight2 = at::linspace(-1, 1, 8).cos().reshape({1, 8}).requires_grad_();
  at::Tensor bias2 = at::full({1}, .1).requires_grad_();

  std::vector<at::Tensor> parameters() const { return {weight1, bias1, weight2, bias2}; }

  at::Tensor loss() const {
    const at::Tensor x = at::linspace(-2, 2, 64).reshape({16, 4});
    return at::linear(at::linear(x, weight1, bias1).relu(), weight2, bias2).pow(2).mean();
  }
};

struct Training {
  explicit Training(bool clip = false, int poison_at = -1) : clip(clip), poison_at(poison_at) {}

  Net net;
  GradScaler scaler{at::kCPU, GradScalerOptions().init_scale(64).growth_interval(100)};
  bool clip;
  int poison_at;  // the iteration whose loss is inf, -1 for none

  void run(torch::optim::Optimizer& optimizer) {
    for (int iteration = 0; iteration < 5; ++iteration) {
      optimizer.zero_grad();
      at::Tensor loss = net.loss();
      if (iteration == poison_at) loss = loss * std::numeric_limits<double>::infinity();
      scaler.scale(loss).backward();
      if (clip) {
        scaler.unscale_(optimizer);
        torch::nn::utils::clip_grad_norm_(net.parameters(), .05);
      }
      EXPECT_EQ(scaler.step(optimizer).skipped(), iteration == poison_at);
      scaler.update();
    }
  }
};

template <typename Plain, typename State>
void expect_equal_trainings(bool decoupled) {
  for (const bool clip : {false, true}) {
    for (const int poison_at : {-1, 0, 2}) {
      SCOPED_TRACE(::testing::Message() << "clip " << clip << ", inf at " << poison_at);
      Training plain(clip, poison_at);
      Plain adam(plain.net.parameters(), kLearningRate);
      plain.run(adam);
      Training fused(clip, poison_at);
      FusedAdam fused_adam(fused.net.parameters(), decoupled);
      fused.run(fused_adam);
      EXPECT_EQ(fused_adam.calls, 5);
      EXPECT_EQ(plain.scaler.get_scale(), fused.scaler.get_scale());
      EXPECT_EQ(plain.scaler.get_growth_tracker(), fused.scaler.get_growth_tracker());
      for (size_t i = 0; i < fused_adam.trained().size(); ++i) {
        const at::Tensor expected = plain.net.parameters()[i];
        EXPECT_TRUE(fused.net.parameters()[i].allclose(expected, 1e-5, 1e-6));
        const auto& state = static_cast<State&>(*adam.state().at(expected.unsafeGetTensorImpl()));
        EXPECT_EQ(fused_adam.steps()[i].template item<float>(), poison_at < 0 ? 5 : 4);
        EXPECT_EQ(state.step(), poison_at < 0 ? 5 : 4);
        EXPECT_TRUE(fused_adam.means()[i].allclose(state.exp_avg(), 1e-5, 1e-6));
        EXPECT_TRUE(fused_adam.squares()[i].allclose(state.exp_avg_sq(), 1e-5, 1e-6));
      }
    }
  }
}

TEST(GradScalerFused, AdamEqualsThePlainOne) {
  expect_equal_trainings<torch::optim::Adam, torch::optim::AdamParamState>(/*decoupled=*/false);
}

TEST(GradScalerFused, AdamWEqualsThePlainOne) {
  expect_equal_trainings<torch::optim::AdamW, torch::optim::AdamWParamState>(/*decoupled=*/true);
}

TEST(GradScalerFused, AnInfMovesNothing) {
  Training training;
  FusedAdam adam(training.net.parameters(), /*decoupled=*/true);
  training.run(adam);
  const auto snapshot = [&] {
    std::vector<at::Tensor> all;
    for (const auto& list : {adam.trained(), adam.means(), adam.squares(), adam.steps()}) {
      for (const at::Tensor& tensor : list) all.push_back(tensor.detach().clone());
    }
    return all;
  };
  const std::vector<at::Tensor> before = snapshot();
  training.scaler.scale(training.net.loss() * std::numeric_limits<double>::quiet_NaN()).backward();
  const StepResult result = training.scaler.step(adam);
  training.scaler.update();
  EXPECT_TRUE(result.skipped());  // asked late: update() left the answer alone
  EXPECT_EQ(training.scaler.get_scale(), 32);
  const std::vector<at::Tensor> after = snapshot();
  for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(after[i].equal(before[i])) << i;
}

TEST(GradScalerFused, UnscalesInTheKernelUnlessDoneBefore) {
  Net net;
  FusedAdam adam(net.parameters(), /*decoupled=*/false);
  GradScaler scaler(at::kCPU, GradScalerOptions().init_scale(64));
  const auto gradient = [&] { return net.bias2.grad().item<float>(); };
  scaler.scale(net.loss()).backward();
  scaler.step(adam);
  ASSERT_TRUE(adam.last_grad_scale.defined());
  EXPECT_EQ(adam.last_grad_scale.item<float>(), 64);
  EXPECT_ANY_THROW(scaler.step(adam));
  EXPECT_EQ(adam.calls, 1);
  scaler.update();
  adam.zero_grad();
  scaler.scale(net.loss()).backward();
  const float scaled = gradient();
  scaler.unscale_(adam);
  EXPECT_EQ(gradient(), scaled / 64);
  scaler.step(adam);
  EXPECT_FALSE(adam.last_grad_scale.defined());
  EXPECT_EQ(gradient(), scaled / 64);
}

TEST(GradScalerFused, StepsWithoutAnyGradient) {
  Net net;
  FusedAdam adam(net.parameters(), /*decoupled=*/false);
  GradScaler scaler(at::kCPU);
  scaler.scale(net.loss());
  EXPECT_TRUE(scaler.step(adam).updated());
  EXPECT_EQ(adam.calls, 1);
}

TEST(GradScalerFused, ToldNotToFuseItIsAPlainOptimizer) {
  Net net;
  FusedAdam adam(net.parameters(), /*decoupled=*/false);
  adam.fused = false;
  GradScaler scaler(at::kCPU, GradScalerOptions().init_scale(64));
  scaler.scale(net.loss() * std::numeric_limits<double>::infinity()).backward();
  EXPECT_TRUE(scaler.step(adam).skipped());
  EXPECT_EQ(adam.calls, 0);
}

TEST(GradScalerFused, DisabledCallsStep) {
  Net net;
  FusedAdam adam(net.parameters(), /*decoupled=*/false);
  GradScaler scaler(at::kCPU, GradScalerOptions().enabled(false));
  scaler.scale(net.loss()).backward();
  EXPECT_TRUE(scaler.step(adam).updated());
  EXPECT_EQ(adam.calls, 1);
  EXPECT_FALSE(adam.last_grad_scale.defined());
}

}  // namespace
}  // namespace scramjet::amp
