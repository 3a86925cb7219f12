#include "scripting/measure.h"

#include <ATen/ops/where.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

namespace scramjet {
namespace {

double timed_call(torch::jit::Module& module, const std::vector<c10::IValue>& inputs) {
  const auto start = std::chrono::steady_clock::now();
  const c10::IValue answer = module.forward(inputs);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  return took.count();
}

double tensor_difference(const at::Tensor& a, const at::Tensor& b) {
  constexpr double kDifferent = std::numeric_limits<double>::infinity();
  if (a.defined() != b.defined()) return kDifferent;
  if (!a.defined()) return 0;
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) return kDifferent;
  if (a.numel() == 0) return 0;
  if (a.is_complex()) return a.sub(b).abs().max().item().toDouble();
  const at::Tensor x = a.to(at::kDouble), y = b.to(at::kDouble);
  const at::Tensor same = x.eq(y).logical_or(x.isnan().logical_and(y.isnan()));  // also inf = inf
  const double most = x.sub(y).abs().masked_fill(same, 0).max().item().toDouble();
  return std::isnan(most) ? kDifferent : most;
}

}  // namespace

std::vector<Timing> measure(std::vector<Variant>& variants, const std::vector<c10::IValue>& inputs,
                            int runs) {
  const c10::NoGradGuard no_grad;
  std::vector<Timing> timings;
  std::vector<std::vector<double>> times(variants.size());
  for (Variant& variant : variants) {
    Timing timing{.variant = variant.name};
    timing.first_call_ms = timed_call(variant.module, inputs);
    timing.second_call_ms = timed_call(variant.module, inputs);
    timings.push_back(timing);
  }
  for (int run = 0; run < runs; ++run) {
    for (size_t k = 0; k < variants.size(); ++k)
      times[k].push_back(timed_call(variants[k].module, inputs));
  }
  for (size_t k = 0; k < variants.size(); ++k) {
    std::sort(times[k].begin(), times[k].end());
    timings[k].ms_min = times[k].front();
    timings[k].ms_median = times[k][times[k].size() / 2];
  }
  return timings;
}

double largest_difference(const c10::IValue& a, const c10::IValue& b) {
  constexpr double kDifferent = std::numeric_limits<double>::infinity();
  if (a.isTensor() && b.isTensor()) return tensor_difference(a.toTensor(), b.toTensor());
  if (a.tagKind() != b.tagKind()) return kDifferent;
  if (a.isTuple() || a.isList()) {
    const auto x = a.isTuple() ? a.toTupleRef().elements().vec() : a.toListRef().vec();
    const auto y = b.isTuple() ? b.toTupleRef().elements().vec() : b.toListRef().vec();
    if (x.size() != y.size()) return kDifferent;
    double most = 0;
    for (size_t k = 0; k < x.size(); ++k) most = std::max(most, largest_difference(x[k], y[k]));
    return most;
  }
  if (a.isGenericDict()) {
    const auto x = a.toGenericDict(), y = b.toGenericDict();
    if (x.size() != y.size()) return kDifferent;
    double most = 0;
    for (const auto& entry : x)
      most = std::max(most, y.contains(entry.key())
                                ? largest_difference(entry.value(), y.at(entry.key()))
                                : kDifferent);
    return most;
  }
  if (a.isScalar()) return std::abs(a.toScalar().toDouble() - b.toScalar().toDouble());
  return a == b ? 0 : kDifferent;
}

}  // namespace scramjet
