// Trains one net in several processes, each on its part of every batch; they end with the same
// parameters, those that one process would reach on the whole batches.
//
//   bazel build //examples:train_ddp
//   export MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 WORLD_SIZE=2
//   RANK=1 bazel-bin/examples/train_ddp & RANK=0 bazel-bin/examples/train_ddp
//
// or `torchrun --no-python --nproc-per-node 2 bazel-bin/examples/train_ddp`.
//
// With --inject-inf STEP:RANK one rank's gradients overflow in one step: every rank skips that step
// and halves the scale. A rank that is killed is an error on the others within --timeout seconds.

#include <c10/core/DeviceGuard.h>
#include <torch/csrc/jit/serialization/pickle.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <limits>
#include <string>
#include <vector>

#include "amp/autocast.h"
#include "amp/distributed.h"
#include "amp/grad_scaler.h"
#include "amp/process_group.h"

namespace {

using scramjet::amp::Autocast;
using scramjet::amp::GradScaler;
using scramjet::amp::GradScalerOptions;
using torch::nn::Linear;

constexpr int64_t kInputs = 16, kClasses = 4;

struct Arguments {
  std::string dtype = "float32", inject_inf, out;
  int steps = 10, timeout = 60;
  int64_t batch = 32;
};

// Where torchrun starts a process for each device, it tells each its number.
at::Device device_of_this_process() {
  if (!torch::cuda::is_available()) return at::kCPU;
  const char* const local_rank = std::getenv("LOCAL_RANK");
  return {at::kCUDA,
          static_cast<c10::DeviceIndex>(local_rank != nullptr ? std::stoi(local_rank) : 0)};
}

struct Batch {
  at::Tensor input, target;
};

// The same on every rank: which of the first inputs is largest.
Batch batch_of(int step, int64_t size) {
  auto generator = at::detail::createCPUGenerator(step);
  const at::Tensor input = at::randn({size, kInputs}, generator, at::TensorOptions(at::kFloat));
  return {input, input.slice(/*dim=*/1, 0, kClasses).argmax(1)};
}

void train(const Arguments& arguments) {
  const at::Device device = device_of_this_process();
  const c10::DeviceGuard guard(device);
  const auto group = scramjet::amp::make_process_group(std::chrono::seconds(arguments.timeout));
  const int rank = group->getRank(), ranks = group->getSize();
  TORCH_CHECK_VALUE(arguments.batch % ranks == 0, "--batch should be a multiple of the ", ranks,
                    " ranks, got ", arguments.batch);

  torch::manual_seed(rank);  // each rank draws other parameters, until rank 0's go to all
  torch::nn::Sequential net(Linear(kInputs, 64), torch::nn::ReLU(), Linear(64, kClasses));
  net->to(device);
  scramjet::amp::broadcast_parameters(net->parameters(), group);
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.2).momentum(0.9));
  GradScaler scaler(device.type(), GradScalerOptions().growth_interval(4));
  scramjet::amp::synchronize_scaler(scaler, group);
  const auto dtype = arguments.dtype == "half" ? at::kHalf : at::kBFloat16;

  for (int step = 0; step < arguments.steps; ++step) {
    const Batch batch = batch_of(step, arguments.batch);
    const at::Tensor input = batch.input.chunk(ranks)[rank].to(device);
    const at::Tensor target = batch.target.chunk(ranks)[rank].to(device);
    optimizer.zero_grad();
    at::Tensor loss;
    {
      const Autocast autocast(device.type(),
                              {.dtype = dtype, .enabled = arguments.dtype != "float32"});
      loss = torch::nn::functional::cross_entropy(net->forward(input), target);
    }
    scaler.scale(loss).backward();
    if (arguments.inject_inf == std::to_string(step) + ":" + std::to_string(rank)) {
      net->parameters()[0].mutable_grad().fill_(std::numeric_limits<float>::infinity());
    }
    scramjet::amp::average_gradients(net->parameters(), group);
    const bool updated = scaler.step(optimizer).updated();
    scaler.update();
    std::printf("rank %d of %d, step %d: loss %.4f, scale %g%s\n", rank, ranks, step,
                loss.item<float>(), scaler.get_scale(), updated ? "" : ", skipped");
    std::fflush(stdout);
  }
  if (arguments.out.empty()) return;
  const at::Tensor parameters = torch::nn::utils::parameters_to_vector(net->parameters());
  const auto bytes = torch::jit::pickle_save(parameters.detach().to(at::kCPU));
  std::ofstream file(arguments.out + "." + std::to_string(rank), std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  TORCH_CHECK(file.good(), "cannot write '", arguments.out, ".", rank, "'");
}

int parse_and_train(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Trains a small net in several processes.");
  app.add_option("--dtype", arguments.dtype, "autocast to this, or float32: none")
      ->check(CLI::IsMember({"float32", "bfloat16", "half"}))
      ->capture_default_str();
  app.add_option("--steps", arguments.steps)->check(CLI::NonNegativeNumber)->capture_default_str();
  app.add_option("--batch", arguments.batch, "of all ranks together")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--inject-inf", arguments.inject_inf, "STEP:RANK whose gradients become inf");
  app.add_option("--timeout", arguments.timeout, "seconds to wait for another rank")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--out", arguments.out,
                 "write the parameters, as one vector for torch.load, to OUT.RANK");
  CLI11_PARSE(app, argc, argv);
  train(arguments);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return parse_and_train(argc, argv);
  } catch (const c10::Error& error) {
    std::cerr << "train_ddp: " << error.what_without_backtrace() << '\n';
    return 1;
  } catch (const std::exception& error) {
    std::cerr << "train_ddp: " << error.what() << '\n';
    return 1;
  }
}
