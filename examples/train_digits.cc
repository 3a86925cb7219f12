// Trains a small convolutional net on scikit-learn's 8x8 digits in four ways, and shows what each
// costs in accuracy and in lost gradients.
//
//   .venv/bin/python tools/train/train.py --digits digits.pt
//   bazel build //examples:train_digits
//   bazel-bin/examples/train_digits digits.pt
//
// Why gradients get lost here: the loss is multiplied by 2^-16 and the learning rate by 2^16. In
// exact arithmetic that changes nothing, and in float32, which has the range, it changes not a bit:
// both are powers of two. But it makes the gradients as small as those of a loss that is a mean
// over 65536 times more elements (pixels of a segmentation, say), and below 2^-25 a number rounds
// to 0 in half, as activations' gradients are under autocast. All four ways have this same loss.
//
// The first 1400 images train, the other 397 test; they are of other writers. Exits with 1 where
// fp32, bf16 and fp16 with a GradScaler do not agree, or where plain fp16 loses no gradients.

#include <torch/csrc/jit/serialization/pickle.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "amp/autocast.h"
#include "amp/grad_scaler.h"

namespace {

using scramjet::amp::Autocast;
using scramjet::amp::GradScaler;
using scramjet::amp::GradScalerOptions;

constexpr int64_t kTrainImages = 1400, kBatch = 32;
constexpr double kLossFactor = 1. / 65536, kLearningRate = 0.05 / kLossFactor;
constexpr double kAgreement = 3;    // percentage points of accuracy
constexpr double kLostAtLeast = 5;  // percentage points of gradients that are zero without a scaler

struct Digits {
  at::Tensor images;  // float [n, 1, 8, 8], 0 to 1
  at::Tensor labels;  // int64 [n]
};

struct Way {
  std::string name;
  std::optional<at::ScalarType> amp_dtype;
  bool scaler = false;
};

struct Result {
  double accuracy = 0, zero_gradients = 0;  // in percent
  int skipped = 0;
  std::optional<double> scale;
};

// A file of torch.save({"images": ..., "labels": ...}).
Digits read_digits(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  TORCH_CHECK_VALUE(file.good(), "cannot read '", path, "'");
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  const auto entries = torch::jit::pickle_load(bytes).toGenericDict();
  Digits digits{entries.at("images").toTensor().to(at::kFloat), entries.at("labels").toTensor()};
  const int64_t count = digits.labels.size(0);
  TORCH_CHECK_VALUE(digits.images.sizes() == at::IntArrayRef({count, 1, 8, 8}),
                    "images: expected shape [", count, ", 1, 8, 8], got ", digits.images.sizes());
  TORCH_CHECK_VALUE(count > kTrainImages, "expected more than ", kTrainImages, " images, got ",
                    count);
  return digits;
}

torch::nn::Sequential small_net() {
  using namespace torch::nn;
  return Sequential(Conv2d(Conv2dOptions(1, 16, /*kernel_size=*/3).padding(1)), ReLU(),
                    Conv2d(Conv2dOptions(16, 32, /*kernel_size=*/3).padding(1)), ReLU(),
                    MaxPool2d(MaxPool2dOptions(2)), Flatten(), Linear(32 * 4 * 4, 10));
}

// The share, in percent, of the parameters' gradients that are exactly 0. Some are in float32 too:
// behind a unit that ReLU holds at 0, or from pixels that are always white.
double zero_gradients(const std::vector<at::Tensor>& parameters) {
  int64_t zeros = 0, count = 0;
  for (const at::Tensor& parameter : parameters) {
    zeros += (parameter.grad() == 0).sum().item<int64_t>();
    count += parameter.numel();
  }
  return 100. * static_cast<double>(zeros) / static_cast<double>(count);
}

double accuracy(torch::nn::Sequential& net, const Digits& test) {
  const torch::NoGradGuard no_grad;
  const at::Tensor right = net->forward(test.images).argmax(1) == test.labels;
  return 100. * right.to(at::kFloat).mean().item<double>();
}

Result train(const Way& way, const Digits& digits, int epochs) {
  torch::manual_seed(0);
  torch::nn::Sequential net = small_net();
  const std::vector<at::Tensor> parameters = net->parameters();
  torch::optim::SGD optimizer(parameters, torch::optim::SGDOptions(kLearningRate).momentum(0.9));
  // Grows early, so that a short run shows growth.
  GradScaler scaler(at::kCPU, GradScalerOptions().enabled(way.scaler).growth_interval(30));
  Result result;
  int steps = 0;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (const at::Tensor& rows : torch::randperm(kTrainImages).split(kBatch)) {
      optimizer.zero_grad();
      at::Tensor loss;
      {
        const Autocast autocast(at::kCPU,
                                {.dtype = way.amp_dtype, .enabled = way.amp_dtype.has_value()});
        const at::Tensor scores = net->forward(digits.images.index_select(0, rows));
        loss = at::cross_entropy_loss(scores, digits.labels.index_select(0, rows)) * kLossFactor;
      }
      scaler.scale(loss).backward();
      result.zero_gradients += zero_gradients(parameters);
      result.skipped += scaler.step(optimizer).skipped();
      scaler.update();
      ++steps;
    }
  }
  result.zero_gradients /= steps;
  if (way.scaler) result.scale = scaler.get_scale();
  const at::indexing::Slice rest(kTrainImages);
  result.accuracy = accuracy(net, {digits.images.index({rest}), digits.labels.index({rest})});
  return result;
}

// Why the results are not what they must be; empty where they are.
std::string fault(const Result& fp32, const Result& bf16, const Result& scaled,
                  const Result& unscaled) {
  const auto [least, most] = std::minmax({fp32.accuracy, bf16.accuracy, scaled.accuracy});
  if (most - least > kAgreement)
    return "fp32, bf16 and fp16 with a scaler differ by more than 3 percentage points";
  if (unscaled.zero_gradients < scaled.zero_gradients + kLostAtLeast)
    return "fp16 without a scaler lost no gradients";
  return "";
}

int compare(const std::string& path, int epochs) {
  at::set_num_threads(1);  // tiny tensors; and sums are then in the same order in each run
  const Digits digits = read_digits(path);
  const std::vector<Way> ways = {{"fp32", std::nullopt},
                                 {"bf16", at::kBFloat16},
                                 {"fp16, GradScaler", at::kHalf, true},
                                 {"fp16, no scaler", at::kHalf}};
  std::printf("%lld images to train, %lld to test, %d epochs\n",
              static_cast<long long>(kTrainImages),
              static_cast<long long>(digits.labels.size(0) - kTrainImages), epochs);
  std::printf("%-18s %14s %16s %14s %12s\n", "", "test accuracy", "zero gradients", "skipped steps",
              "final scale");
  std::vector<Result> results;
  for (const Way& way : ways) {
    const Result& r = results.emplace_back(train(way, digits, epochs));
    std::printf("%-18s %12.1f %% %14.1f %% %14d %12s\n", way.name.c_str(), r.accuracy,
                r.zero_gradients, r.skipped,
                r.scale ? std::to_string(static_cast<long long>(*r.scale)).c_str() : "-");
  }
  const std::string wrong = fault(results[0], results[1], results[2], results[3]);
  if (!wrong.empty()) std::cerr << "train_digits: " << wrong << '\n';
  return wrong.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("A small net on 8x8 digits in fp32, bf16, fp16 with a GradScaler, fp16 without.");
  std::string path;
  int epochs = 15;
  app.add_option("digits", path, "the file that tools/train/train.py --digits writes")->required();
  app.add_option("--epochs", epochs, "of each way (default 15)")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    return compare(path, epochs);
  } catch (const c10::Error& error) {
    std::cerr << "train_digits: " << error.what_without_backtrace() << '\n';
    return 1;
  }
}
