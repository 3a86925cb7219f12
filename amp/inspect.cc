#include "amp/inspect.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/where.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "amp/inspect_recorder.h"

namespace scramjet::amp {
namespace {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

void check_options(const InspectOptions& options) {
  TORCH_CHECK_VALUE(options.dtype == c10::kHalf || options.dtype == c10::kBFloat16,
                    "inspect: argument 'options.dtype' must be half or bfloat16, got ",
                    options.dtype);
  TORCH_CHECK_VALUE(options.tolerance > 0,
                    "inspect: argument 'options.tolerance' must be above 0, got ",
                    options.tolerance);
}

/// What a user would say: six significant digits at most.
std::string words(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

std::string share(int64_t part, int64_t whole) {
  return std::to_string(part) + " of " + std::to_string(whole);
}

std::string reason_to_keep(const OperatorReport& report, double tolerance) {
  if (report.policy == CastPolicy::banned) return "torch's autocast refuses it";
  if (!report.narrow) return {};
  const bool fails = report.not_run.starts_with("fails");
  if (fails) return report.not_run;
  const bool casts = report.policy == CastPolicy::lower_precision_fp;
  if (casts && report.inputs.overflowed() > 0) {
    return share(report.inputs.overflowed(), report.inputs.count()) +
           " input values overflow, the largest is " + words(report.inputs.largest());
  }
  if (report.overflows_made > 0) {
    return share(report.outputs.overflowed(), report.outputs.count()) +
           " results overflow, the largest is " + words(report.outputs.largest());
  }
  // Without a cast of its own it runs in the dtype of what it reads; the fault is where that was
  // made.
  if (report.inputs.overflowed() > 0) return {};
  if (report.error.value_or(0) <= tolerance) return {};
  if (std::isinf(*report.error)) return "an inf or NaN appears inside";
  return "its error is " + words(*report.error) + " epsilons";
}

void look_at_gradients(const at::Tensor& loss, const NamedTensors& parameters,
                       std::vector<TensorReport>& reports) {
  TORCH_CHECK_VALUE(loss.defined() && loss.numel() == 1,
                    "inspect: argument 'options.loss' must return one element, got ",
                    loss.defined() ? "shape " + c10::str(loss.sizes()) : "an undefined tensor");
  std::vector<at::Tensor> trained;
  std::vector<size_t> places;
  for (size_t k = 0; k < parameters.size(); ++k) {
    if (!parameters[k].second.requires_grad()) continue;
    trained.push_back(parameters[k].second);
    places.push_back(k);
  }
  TORCH_CHECK_VALUE(!trained.empty(), "inspect: a loss was given, but no parameter of the ",
                    parameters.size(), " requires gradients");
  TORCH_CHECK_VALUE(loss.requires_grad(),
                    "inspect: the loss does not depend on a parameter that requires gradients");
  const auto gradients = torch::autograd::grad({loss}, trained, {}, /*retain_graph=*/std::nullopt,
                                               /*create_graph=*/false, /*allow_unused=*/true);
  for (size_t k = 0; k < gradients.size(); ++k) {
    if (gradients[k].defined()) reports[places[k]].gradients.add(gradients[k]);
  }
}

std::vector<TensorReport> input_reports(const std::vector<c10::IValue>& inputs,
                                        const FloatFormat& format) {
  std::vector<TensorReport> reports;
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (!inputs[k].isTensor() || !inputs[k].toTensor().is_floating_point()) continue;
    reports.emplace_back("input " + std::to_string(k), format);
    reports.back().values.add(inputs[k].toTensor());
  }
  return reports;
}

std::optional<c10::DeviceType> device_of(const std::vector<c10::IValue>& inputs) {
  for (const c10::IValue& input : inputs) {
    if (input.isTensor()) return input.toTensor().device().type();
  }
  return std::nullopt;
}

/// Shares no tensor with the original.
torch::jit::Module copy(const torch::jit::Module& model) {
  const c10::NoGradGuard no_grad;  // else the copies would be results of the originals
  torch::jit::Module copied = model.deepcopy();
  std::vector<bool> trained;
  for (const at::Tensor& parameter : model.parameters()) {
    trained.push_back(parameter.requires_grad());
  }
  size_t k = 0;
  for (at::Tensor parameter : copied.parameters()) parameter.requires_grad_(trained.at(k++));
  return copied;
}

}  // namespace

double relative_error(const at::Tensor& want, const at::Tensor& got) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const at::Tensor finite = at::isfinite(want);
  const at::Tensor expected = at::where(finite, want, 0).to(at::kDouble);
  const at::Tensor difference = at::where(finite, got.to(at::kDouble), 0) - expected;
  const double distance = at::linalg_vector_norm(difference).item<double>();
  if (distance == 0) return 0;
  const double size = at::linalg_vector_norm(expected).item<double>();
  return std::isfinite(distance) && size > 0 ? distance / size : kInfinity;
}

Inspection inspect(const std::function<c10::IValue()>& forward, const NamedTensors& parameters,
                   const InspectOptions& options) {
  check_options(options);
  const FloatFormat format = *float_format(options.dtype);
  const auto device = options.device.value_or(
      parameters.empty() ? c10::kCPU : parameters.front().second.device().type());
  Inspection found{format, {}, {}, {}};
  for (const auto& [name, parameter] : parameters) {
    found.parameters.emplace_back(name, format);
    if (parameter.is_floating_point()) found.parameters.back().values.add(parameter);
  }
  const auto recorder = std::make_shared<InspectRecorder>(options, device, parameters);
  const c10::AutoGradMode gradients(options.loss != nullptr);
  const c10::IValue output = recorder->watch(forward);
  if (options.loss != nullptr) {
    const at::Tensor loss = options.loss(output);
    if (loss.defined()) recorder->set_loss(loss);
    look_at_gradients(loss, parameters, found.parameters);
  }
  found.operators = std::move(recorder->reports());
  std::erase_if(found.operators, [](const OperatorReport& report) { return report.calls == 0; });
  for (OperatorReport& report : found.operators) {
    report.keep_in_fp32 = reason_to_keep(report, options.tolerance);
  }
  return found;
}

Inspection inspect(const torch::jit::Module& model, const std::vector<c10::IValue>& inputs,
                   const InspectOptions& options) {
  check_options(options);
  torch::jit::Module module = copy(model);
  NamedTensors parameters;
  for (const auto& parameter : module.named_parameters()) {
    parameters.emplace_back(parameter.name, parameter.value);
  }
  InspectOptions with_device = options;
  if (!options.device.has_value() && parameters.empty()) with_device.device = device_of(inputs);
  // TorchScript's optimisation puts other operators in the place of the model's.
  const torch::jit::GraphOptimizerEnabledGuard plain(false);
  Inspection found = inspect([&] { return module.forward(inputs); }, parameters, with_device);
  found.inputs = input_reports(inputs, found.format);
  return found;
}

std::vector<std::string> Inspection::keep_in_fp32() const {
  std::vector<std::string> ops;
  for (const OperatorReport& report : operators) {
    if (!report.keep_in_fp32.empty() && std::ranges::find(ops, report.op) == ops.end()) {
      ops.push_back(report.op);
    }
  }
  return ops;
}

double Inspection::largest_gradient() const {
  double largest = 0;
  for (const OperatorReport& report : operators) {
    if (report.narrow && report.keep_in_fp32.empty()) {
      largest = std::max(largest, report.gradients.largest());
    }
  }
  for (const TensorReport& parameter : parameters) {
    largest = std::max(largest, parameter.gradients.largest());
  }
  return largest;
}

std::optional<double> Inspection::starting_scale() const {
  const double largest = largest_gradient();
  if (largest == 0 || format.max_exponent() >= kFloat32.max_exponent()) return std::nullopt;
  const int exponent = std::ilogb(format.max() / largest) - 2;
  // A scale is a float.
  return std::ldexp(1., std::clamp(exponent, kFloat32.min_exponent(), kFloat32.max_exponent()));
}

}  // namespace scramjet::amp
