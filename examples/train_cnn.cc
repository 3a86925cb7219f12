// Trains a stack of four convolutions in float32, then with AMP, and compares time and memory.
//
//   bazel build //examples:train_cnn
//   bazel-bin/examples/train_cnn --out out    # also writes a Chrome trace of an iteration of each
//
// A benchmark of speed, not of learning: the loss is the plain sum of the result, which has no
// minimum, and with a learning rate of 0.1 the numbers explode. In half the scaled gradients
// overflow from the first iteration on, and the table shows the scaler skipping those steps.

#include <c10/core/CachingDeviceAllocator.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "amp/autocast.h"
#include "amp/grad_scaler.h"

namespace {

using scramjet::amp::Autocast;
using scramjet::amp::GradScaler;
using scramjet::amp::GradScalerOptions;

struct Arguments {
  std::string dtype, out = "out";
  int iterations = 10;
  int64_t batch = 0, size = 0;  // 0: by device and --full
  bool full = false;
};

struct Result {
  std::string name;
  std::vector<double> milliseconds;  // sorted, without the first iteration
  double peak_mib = 0, scale = 0;
  int64_t growth_tracker = 0;
  int skipped = 0;
  bool scaled = false;
};

torch::nn::Sequential simple_cnn() {
  torch::nn::Sequential net;
  const std::vector<int64_t> channels = {3, 64, 128, 256, 512};
  for (size_t k = 0; k + 1 < channels.size(); ++k) {
    if (k > 0) net->push_back(torch::nn::ReLU());
    net->push_back(torch::nn::Conv2d(
        torch::nn::Conv2dOptions(channels[k], channels[k + 1], /*kernel_size=*/3).padding(1)));
  }
  return net;
}

// The process's peak resident memory since reset_peak_memory(), or torch's on the CUDA device.
// Linux counts from the process's start where /proc/self/clear_refs may not be written.
void reset_peak_memory(at::Device device) {
  if (device.is_cuda()) {
    at::getDeviceAllocator(at::kCUDA)->resetPeakStats(0);
    return;
  }
  std::ofstream("/proc/self/clear_refs") << 5;
}

double peak_memory_mib(at::Device device) {
  if (device.is_cuda()) {
    const auto stats = at::getDeviceAllocator(at::kCUDA)->getDeviceStats(0);
    const auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    return static_cast<double>(stats.allocated_bytes[all].peak) / (1 << 20);
  }
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024;
  return 0;
}

void synchronize(at::Device device) {
  if (device.is_cuda()) torch::cuda::synchronize();
}

// A model, its optimizer and its scaler, from the same seed in each mode.
class Training {
 public:
  Training(at::Device device, std::optional<at::ScalarType> amp_dtype)
      : device_(device),
        amp_dtype_(amp_dtype),
        net_(simple_cnn()),
        scaler_(device.type(), GradScalerOptions().enabled(amp_dtype == at::kHalf)) {
    net_->to(device);
    optimizer_ = std::make_unique<torch::optim::SGD>(net_->parameters(),
                                                     torch::optim::SGDOptions(0.1).momentum(0.9));
  }

  // Whether the scaler skipped the step.
  bool iterate(const at::Tensor& input) {
    optimizer_->zero_grad();
    at::Tensor loss;
    {
      const Autocast autocast(device_.type(),
                              {.dtype = amp_dtype_, .enabled = amp_dtype_.has_value()});
      loss = net_->forward(input).sum();
    }
    scaler_.scale(loss).backward();
    const bool skipped = scaler_.step(*optimizer_).skipped();
    scaler_.update();
    synchronize(device_);
    return skipped;
  }

  const GradScaler& scaler() const { return scaler_; }

 private:
  at::Device device_;
  std::optional<at::ScalarType> amp_dtype_;
  torch::nn::Sequential net_;
  std::unique_ptr<torch::optim::SGD> optimizer_;
  GradScaler scaler_;
};

void write_trace(Training& training, const at::Tensor& input, const std::string& path) {
  using torch::profiler::impl::ActivityType;
  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO,
                                                     /*report_input_shapes=*/true);
  std::set<ActivityType> activities = {ActivityType::CPU};
  if (input.is_cuda()) activities.insert(ActivityType::CUDA);
  torch::autograd::profiler::prepareProfiler(config, activities);
  torch::autograd::profiler::enableProfiler(config, activities);
  training.iterate(input);
  torch::autograd::profiler::disableProfiler()->save(path);
  std::printf("trace: %s\n", path.c_str());
}

Result run(const std::string& name, const at::Tensor& input,
           std::optional<at::ScalarType> amp_dtype, const Arguments& arguments) {
  torch::manual_seed(0);
  reset_peak_memory(input.device());
  Training training(input.device(), amp_dtype);
  Result result;
  result.name = name;
  for (int k = 0; k < arguments.iterations; ++k) {
    const auto start = std::chrono::steady_clock::now();
    result.skipped += training.iterate(input);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    if (k > 0) result.milliseconds.push_back(took.count());  // the first one chooses algorithms
  }
  std::sort(result.milliseconds.begin(), result.milliseconds.end());
  result.peak_mib = peak_memory_mib(input.device());
  result.scale = training.scaler().get_scale();
  result.growth_tracker = training.scaler().get_growth_tracker();
  result.scaled = training.scaler().is_enabled();
  // After the measurement, and so not part of the skipped steps above.
  write_trace(training, input, arguments.out + "/trace_" + (amp_dtype ? "amp" : "fp32") + ".json");
  return result;
}

void print_table(const std::vector<Result>& results) {
  std::printf("\n%-10s %12s %12s %8s %12s  %s\n", "", "ms min", "ms median", "ratio", "peak MiB",
              "scaler");
  for (const Result& r : results) {
    const double median = r.milliseconds[r.milliseconds.size() / 2];
    std::printf("%-10s %12.1f %12.1f %7.2fx %12.0f  ", r.name.c_str(), r.milliseconds.front(),
                median, results.front().milliseconds.front() / r.milliseconds.front(), r.peak_mib);
    if (r.scaled)
      std::printf("scale %g, growth tracker %lld, %d skipped steps\n", r.scale,
                  static_cast<long long>(r.growth_tracker), r.skipped);
    else
      std::printf("disabled\n");
  }
}

// torch has no such question in its C++ API that is the same in all supported versions.
void say_whether_amp_can_pay(at::ScalarType dtype) {
#if defined(__x86_64__)
  const bool native = dtype == at::kBFloat16 ? __builtin_cpu_supports("avx512bf16")
                                             : __builtin_cpu_supports("avx512fp16");
  if (!native)
    std::printf("This CPU has no %s instructions: AMP cannot pay here.\n",
                dtype == at::kBFloat16 ? "bfloat16" : "half");
#else
  (void)dtype;
#endif
}

void compare(const Arguments& arguments) {
  const at::Device device = torch::cuda::is_available() ? at::kCUDA : at::kCPU;
  const bool original = arguments.full || device.is_cuda();
  const int64_t batch = arguments.batch ? arguments.batch : original ? 32 : 4;
  const int64_t size = arguments.size ? arguments.size : original ? 256 : 64;
  const at::ScalarType dtype =
      arguments.dtype == "half" || (arguments.dtype.empty() && device.is_cuda()) ? at::kHalf
                                                                                 : at::kBFloat16;
  std::printf("SimpleCNN on %s, input %lldx3x%lldx%lld, %d threads, %d iterations each\n",
              device.str().c_str(), static_cast<long long>(batch), static_cast<long long>(size),
              static_cast<long long>(size), at::get_num_threads(), arguments.iterations);
  if (device.is_cpu()) say_whether_amp_can_pay(dtype);
  std::filesystem::create_directories(arguments.out);
  torch::manual_seed(1);
  const at::Tensor input = torch::randn({batch, 3, size, size}, device);
  std::vector<Result> results;
  results.push_back(run("fp32", input, std::nullopt, arguments));
  results.push_back(run(dtype == at::kHalf ? "AMP half" : "AMP bf16", input, dtype, arguments));
  print_table(results);
  std::printf("Times without the first iteration; peak memory is %s.\n",
              device.is_cpu() ? "the process's (RSS), input included"
                              : "that of torch's allocator on the device");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Four convolutions trained in float32 and with AMP: time, memory, traces.");
  Arguments arguments;
  app.add_option("--dtype", arguments.dtype,
                 "bfloat16 (default on CPU), or half with a GradScaler (default on CUDA)")
      ->check(CLI::IsMember({"bfloat16", "half"}));
  app.add_option("--iterations", arguments.iterations, "of each mode, at least 2 (default 10)")
      ->check(CLI::Range(2, 1'000'000));
  app.add_option("--batch", arguments.batch, "images (default 4, on CUDA 32)")
      ->check(CLI::PositiveNumber);
  app.add_option("--size", arguments.size, "height and width (default 64, on CUDA 256)")
      ->check(CLI::PositiveNumber);
  app.add_flag("--full", arguments.full,
               "32 images of 256x256 on CPU too: minutes an iteration, some 20 GB");
  app.add_option("--out", arguments.out, "folder of the traces (default out)");
  CLI11_PARSE(app, argc, argv);
  // Else the profiler tells standard error of its stages, and of a driver that is not there.
  setenv("KINETO_LOG_LEVEL", "99", /*overwrite=*/0);
  try {
    compare(arguments);
  } catch (const c10::Error& error) {
    std::cerr << "train_cnn: " << error.what_without_backtrace() << '\n';
    return 1;
  } catch (const std::filesystem::filesystem_error& error) {
    std::cerr << "train_cnn: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
