// Autocast around scripted modules: next to an eager twin, in one call and over a training.

#include <ATen/autocast_mode.h>
#include <ATen/ops/linear.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/passes/autocast.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/nn/modules/linear.h>

#include "amp/autocast.h"

namespace scramjet::amp {
namespace {

class WithoutTorchScriptsOwnPass {
 public:
  ~WithoutTorchScriptsOwnPass() { torch::jit::setAutocastMode(previous_); }

 private:
  bool previous_ = torch::jit::setAutocastMode(false);
};

// A recurrent net: a loop, and in it a branch.
struct EagerNet {
  torch::nn::Linear input{3, 8}, recurrent{8, 8}, output{8, 1};

  at::Tensor forward(const at::Tensor& x, bool deep) const {
    at::Tensor h = at::zeros({x.size(1), 8});
    for (int64_t t = 0; t < x.size(0); ++t) {
      h = at::tanh(apply(input, x[t]) + apply(recurrent, h.to(x.scalar_type())));
      if (deep && t % 2 == 0) h = h + at::relu(apply(recurrent, h.to(x.scalar_type()))) * 0.5;
    }
    return apply(output, h.to(x.scalar_type()));
  }

  // As TorchScript's linear; torch::nn's calls addmm, whose gradients round otherwise.
  static at::Tensor apply(const torch::nn::Linear& layer, const at::Tensor& x) {
    return at::linear(x, layer->weight, layer->bias);
  }

  std::vector<std::pair<std::string, at::Tensor>> parameters() const {
    return {{"input_w", input->weight}, {"input_b", input->bias},  {"rec_w", recurrent->weight},
            {"rec_b", recurrent->bias}, {"out_w", output->weight}, {"out_b", output->bias}};
  }
};

torch::jit::Module script(const EagerNet& net) {
  torch::jit::Module module("Net");
  for (const auto& [name, parameter] : net.parameters()) {
    module.register_parameter(name, parameter.detach().clone().requires_grad_(), false);
  }
  module.define(R"(
    def forward(self, x, deep: bool):
        h = torch.zeros([x.size(1), 8])
        for t in range(x.size(0)):
            h = torch.tanh(torch.linear(x[t], self.input_w, self.input_b) +
                           torch.linear(h.to(x.dtype), self.rec_w, self.rec_b))
            if deep and t % 2 == 0:
                h = h + torch.relu(torch.linear(h.to(x.dtype), self.rec_w, self.rec_b)) * 0.5
        return torch.linear(h.to(x.dtype), self.out_w, self.out_b)
  )");
  return module;
}

std::vector<at::Tensor> parameters_of(const EagerNet& net) {
  std::vector<at::Tensor> parameters;
  for (const auto& [name, parameter] : net.parameters()) parameters.push_back(parameter);
  return parameters;
}

std::vector<at::Tensor> parameters_of(const torch::jit::Module& module) {
  std::vector<at::Tensor> parameters;
  for (const at::Tensor& parameter : module.parameters()) parameters.push_back(parameter);
  return parameters;
}

// SGD with a scaled loss, six steps; the losses.
template <typename Forward>
std::vector<double> train(const std::vector<at::Tensor>& parameters, const at::Tensor& x,
                          const Forward& forward) {
  constexpr double kScale = 128;
  constexpr double kLearningRate = 0.05;
  std::vector<double> losses;
  for (int step = 0; step < 6; ++step) {
    at::Tensor loss;
    {
      const Autocast autocast(at::kCPU);
      const at::Tensor y = forward(x, step % 2 == 0);
      EXPECT_EQ(y.scalar_type(), at::kBFloat16);
      loss = at::mse_loss(y.to(at::kFloat), at::ones({4, 1}));
    }
    (loss * kScale).backward();
    const at::NoGradGuard no_grad;
    for (const at::Tensor& parameter : parameters) {
      const at::Tensor& grad = parameter.grad();
      if (!grad.defined() || grad.scalar_type() != at::kFloat) {
        ADD_FAILURE() << "a parameter has no float32 gradient";
        return losses;
      }
      parameter.sub_(grad, kLearningRate / kScale);
      parameter.mutable_grad().reset();
    }
    losses.push_back(loss.item<double>());
  }
  return losses;
}

void expect_scripted_trains_like_eager(double tolerance) {
  at::manual_seed(0);
  const EagerNet eager;
  torch::jit::Module scripted = script(eager);
  const at::Tensor x = at::randn({5, 4, 3});
  const auto eager_losses = train(parameters_of(eager), x, [&](const at::Tensor& x, bool deep) {
    return eager.forward(x, deep);
  });
  const auto scripted_losses =
      train(parameters_of(scripted), x, [&](const at::Tensor& x, bool deep) {
        return scripted.forward({x, deep}).toTensor();
      });
  ASSERT_EQ(eager_losses.size(), scripted_losses.size());
  for (size_t i = 0; i < eager_losses.size(); ++i) {
    EXPECT_NEAR(eager_losses[i], scripted_losses[i], tolerance) << "step " << i;
  }
  EXPECT_LT(eager_losses.back(), eager_losses.front());
  EXPECT_LT(scripted_losses.back(), scripted_losses.front());
}

TEST(AutocastScript, TrainsLikeEager) {
  const WithoutTorchScriptsOwnPass guard;
  const torch::jit::GraphOptimizerEnabledGuard unoptimized(false);
  expect_scripted_trains_like_eager(/*tolerance=*/0);
}

TEST(AutocastScript, TrainsCloseToEagerWithTorchScriptsOwnPass) {
  expect_scripted_trains_like_eager(/*tolerance=*/0.05);
}

torch::jit::Module scripted_exp() {
  torch::jit::Module module("Exp");
  module.define(R"(
    def forward(self, x):
        y = torch.mm(x, x)
        return y, torch.exp(y), y.sum()
  )");
  return module;
}

std::vector<at::ScalarType> dtypes(torch::jit::Module module) {
  const auto values = module.forward({at::ones({2, 2})}).toTuple();
  std::vector<at::ScalarType> result;
  for (const c10::IValue& value : values->elements()) {
    result.push_back(value.toTensor().scalar_type());
  }
  return result;
}

using Dtypes = std::vector<at::ScalarType>;

TEST(AutocastScript, RunsInTheRegionOfItsCaller) {
  const WithoutTorchScriptsOwnPass guard;
  const torch::jit::Module module = scripted_exp();
  for (int call = 0; call < 3; ++call) {  // the later ones run optimised graphs
    {
      const Autocast autocast(at::kCPU);
      EXPECT_EQ(dtypes(module), Dtypes(3, at::kBFloat16));
    }
    EXPECT_EQ(dtypes(module), Dtypes(3, at::kFloat));
  }
}

// The fault that autocast.h names; where this fails, torch has mended it, and the advice there can
// go.
TEST(AutocastScript, TorchScriptsOwnPassUsesCudasListOnCpu) {
  const Autocast autocast(at::kCPU);
  EXPECT_EQ(dtypes(scripted_exp()), (Dtypes{at::kBFloat16, at::kFloat, at::kFloat}));
}

}  // namespace
}  // namespace scramjet::amp
