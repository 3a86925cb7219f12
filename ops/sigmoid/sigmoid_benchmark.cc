// scramjet::ops::sigmoid against at::sigmoid on CPU, alternating in one process:
//
//     bazel run //ops/sigmoid:sigmoid_benchmark [-- float|double|half|bfloat16 [grad]]
//
// Prints, for 1 K to 100 M elements, the ratio of the minima and of the medians; under 1 where
// Scramjet is faster. Measure alone: another busy thread upsets OpenMP's barriers.
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sigmoid.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "ops/sigmoid/sigmoid.h"

namespace {

using Function = at::Tensor(const at::Tensor&);

at::Tensor aten_sigmoid(const at::Tensor& x) { return at::sigmoid(x); }

double seconds_per_call(Function* function, const at::Tensor& x, int64_t calls) {
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < calls; ++i) function(x);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return elapsed.count() / static_cast<double>(calls);
}

struct Times {
  std::vector<double> all;
  double min() const { return *std::min_element(all.begin(), all.end()); }
  double median() {
    std::sort(all.begin(), all.end());
    return all[all.size() / 2];
  }
};

void compare(const at::Tensor& x) {
  constexpr double kBatchSeconds = 1e-3;
  seconds_per_call(scramjet::ops::sigmoid, x, 3);
  const double once = seconds_per_call(aten_sigmoid, x, 3);
  const int64_t calls = std::max<int64_t>(1, static_cast<int64_t>(kBatchSeconds / once));
  const int rounds = once > 0.05 ? 15 : 301;
  Times ours;
  Times theirs;
  for (int round = 0; round < rounds; ++round) {
    ours.all.push_back(seconds_per_call(scramjet::ops::sigmoid, x, calls));
    theirs.all.push_back(seconds_per_call(aten_sigmoid, x, calls));
  }
  std::printf("%11lld %13.3f %10.3f %12.5f %12.5f\n", static_cast<long long>(x.numel()),
              ours.min() / theirs.min(), ours.median() / theirs.median(), ours.min() * 1e3,
              theirs.min() * 1e3);
}

at::ScalarType dtype_of(const std::string& name) {
  if (name == "double") return at::kDouble;
  if (name == "half") return at::kHalf;
  if (name == "bfloat16") return at::kBFloat16;
  return at::kFloat;
}

}  // namespace

int main(int argc, char** argv) {
  const at::ScalarType dtype = dtype_of(argc > 1 ? argv[1] : "float");
  const bool grad = argc > 2 && std::string(argv[2]) == "grad";
  std::printf("%s%s, %d threads, %s\n%11s %13s %10s %12s %12s\n", c10::toString(dtype),
              grad ? " with gradient" : "", at::get_num_threads(), at::get_cpu_capability().c_str(),
              "elements", "ratio of min", "of median", "ours ms", "ATen ms");
  for (int64_t n = 1000; n <= 100'000'000; n *= 10) {
    compare(at::randn({n}, at::kFloat).to(dtype).requires_grad_(grad));
  }
}
