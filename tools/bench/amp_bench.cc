// What mixed precision costs from C++: one JSON object on standard output. tools/bench/amp_suite.py
// runs it in turn with the same work in Python.

#include <ATen/Parallel.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <vector>

#include "amp/autocast.h"
#include "amp/grad_scaler.h"

namespace {

// Leaves the parameters alone, so that the scaler's own work is measured.
class StillSgd : public torch::optim::SGD {
 public:
  using torch::optim::SGD::SGD;
  at::Tensor step(LossClosure /*closure*/) override { return {}; }
};

template <class F>
nlohmann::json milliseconds(int rounds, int calls, F&& call) {
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int k = 0; k < calls; ++k) call();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    times.push_back(took.count() / calls);
  }
  std::sort(times.begin(), times.end());
  return {{"ms_min", times.front()}, {"ms_median", times[times.size() / 2]}};
}

nlohmann::json scaler_step() {
  std::vector<at::Tensor> parameters;
  for (int k = 0; k < 1000; ++k) {
    parameters.push_back(at::randn({1000}).requires_grad_());
    parameters.back().mutable_grad() = at::randn({1000});
  }
  StillSgd optimizer(parameters, torch::optim::SGDOptions(0.1));
  scramjet::amp::GradScaler scaler(
      at::kCPU, scramjet::amp::GradScalerOptions().init_scale(1).growth_interval(1'000'000'000));
  scaler.scale(at::ones({1}));
  return milliseconds(200, 1, [&] {
    scaler.unscale_(optimizer);
    scaler.step(optimizer);
    scaler.update();
  });
}

nlohmann::json small_product(bool enabled) {
  const at::Tensor x = at::randn({2, 2}), weight = at::randn({2, 2}).requires_grad_();
  return milliseconds(200, 20, [&] {
    const scramjet::amp::Autocast autocast(at::kCPU, {.dtype = at::kBFloat16, .enabled = enabled});
    for (int k = 0; k < 50; ++k) at::mm(x, weight);
  });
}

}  // namespace

int main() {
  std::cout << nlohmann::json{{"scaler_step", scaler_step()},
                              {"mm_x50_autocast", small_product(true)},
                              {"mm_x50", small_product(false)}}
            << '\n';
}
