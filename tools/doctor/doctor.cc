#include "tools/doctor/doctor.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/mse_loss.h>
#include <c10/core/GradMode.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "scripting/compile.h"

namespace scramjet {
namespace {

at::Tensor first_tensor(const c10::IValue& output) {
  if (output.isTensor()) return output.toTensor();
  if (output.isTuple() && output.toTupleRef().size() > 0) {
    return first_tensor(output.toTupleRef().elements()[0]);
  }
  if (output.isList() && !output.toListRef().empty()) return first_tensor(output.toListRef()[0]);
  TORCH_CHECK_VALUE(false, "doctor: a loss needs a tensor, the model answers with ",
                    output.tagKind());
}

void append_numbers(const c10::IValue& value, std::vector<at::Tensor>& numbers) {
  if (value.isTensor() && value.toTensor().is_floating_point()) {
    numbers.push_back(value.toTensor().to(at::kDouble).flatten());
  } else if (value.isTuple()) {
    for (const c10::IValue& item : value.toTupleRef().elements()) append_numbers(item, numbers);
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) append_numbers(item, numbers);
  } else if (value.isGenericDict()) {
    for (const auto& item : value.toGenericDict()) append_numbers(item.value(), numbers);
  }
}

/// All floating-point numbers of an answer.
at::Tensor numbers_of(const c10::IValue& answer) {
  std::vector<at::Tensor> numbers;
  append_numbers(answer, numbers);
  TORCH_CHECK_VALUE(!numbers.empty(), "the model answers without floating-point tensors");
  return at::cat(numbers);
}

nlohmann::json to_json(const amp::ValueRange& range) {
  nlohmann::json exponents = nlohmann::json::object();
  for (const auto& [exponent, count] : range.exponents()) {
    exponents[std::to_string(exponent)] = count;
  }
  return {{"count", range.count()},           {"zeros", range.zeros()},
          {"infinities", range.infinities()}, {"nans", range.nans()},
          {"overflowed", range.overflowed()}, {"flushed", range.flushed()},
          {"subnormal", range.subnormal()},   {"largest", range.largest()},
          {"smallest", range.smallest()},     {"exponents", exponents}};
}

template <typename T>
nlohmann::json or_null(const std::optional<T>& value) {
  return value.has_value() ? nlohmann::json(*value) : nlohmann::json();
}

nlohmann::json to_json(const amp::OperatorReport& report) {
  return {{"layer", report.layer},
          {"op", report.op},
          {"calls", report.calls},
          {"narrow", report.narrow},
          {"error", or_null(report.error)},
          {"not_run", report.not_run},
          {"keep_in_fp32", report.keep_in_fp32},
          {"inputs", to_json(report.inputs)},
          {"outputs", to_json(report.outputs)},
          {"gradients", to_json(report.gradients)}};
}

nlohmann::json to_json(const std::vector<amp::TensorReport>& reports) {
  nlohmann::json list = nlohmann::json::array();
  for (const amp::TensorReport& report : reports) {
    list.push_back({{"name", report.name},
                    {"values", to_json(report.values)},
                    {"gradients", to_json(report.gradients)}});
  }
  return list;
}

}  // namespace

std::function<at::Tensor(const c10::IValue&)> loss_named(const std::string& name,
                                                         const std::optional<at::Tensor>& target) {
  const bool wants_target = name == "mse" || name == "cross_entropy";
  TORCH_CHECK_VALUE(wants_target == target.has_value(), "doctor: --loss ", name,
                    wants_target ? " needs a --target" : " takes no --target");
  if (name == "output") return [](const c10::IValue& output) { return first_tensor(output); };
  if (name == "sum") return [](const c10::IValue& output) { return first_tensor(output).sum(); };
  if (name == "mean") return [](const c10::IValue& output) { return first_tensor(output).mean(); };
  if (name == "mse") {
    return
        [target](const c10::IValue& output) { return at::mse_loss(first_tensor(output), *target); };
  }
  TORCH_CHECK_VALUE(name == "cross_entropy", "doctor: --loss must be output, sum, mean, mse or ",
                    "cross_entropy, got '", name, "'");
  return [target](const c10::IValue& output) {
    return at::cross_entropy_loss(first_tensor(output), *target);
  };
}

AutocastTrial try_autocast(const torch::jit::Module& model, const std::vector<c10::IValue>& inputs,
                           c10::ScalarType dtype, const std::vector<std::string>& keep_in_fp32) {
  const c10::NoGradGuard no_grad;
  AutocastTrial trial;
  try {
    const at::Tensor want = numbers_of(model.deepcopy().forward(inputs));
    const auto error = [&](const std::map<std::string, std::string>& overrides) {
      CompileOptions options;
      options.autocast = {c10::kCPU, dtype, overrides};
      return amp::relative_error(want,
                                 numbers_of(compile(model.deepcopy(), options).forward(inputs)));
    };
    trial.plain = error({});
    std::map<std::string, std::string> overrides;
    for (const std::string& op : keep_in_fp32) overrides[op] = "fp32";
    if (!overrides.empty()) trial.with_advice = error(overrides);
  } catch (const c10::Error& failure) {
    trial.failed = failure.what_without_backtrace();
  } catch (const std::exception& failure) {
    trial.failed = failure.what();
  }
  return trial;
}

nlohmann::json diagnosis_json(const amp::Inspection& found,
                              const std::optional<AutocastTrial>& trial) {
  nlohmann::json operators = nlohmann::json::array();
  for (const amp::OperatorReport& report : found.operators) operators.push_back(to_json(report));
  nlohmann::json json = {{"format",
                          {{"name", found.format.name()},
                           {"max", found.format.max()},
                           {"smallest_normal", found.format.smallest_normal()},
                           {"smallest_subnormal", found.format.smallest_subnormal()},
                           {"epsilon", found.format.epsilon()}}},
                         {"operators", operators},
                         {"inputs", to_json(found.inputs)},
                         {"parameters", to_json(found.parameters)},
                         {"keep_in_fp32", found.keep_in_fp32()},
                         {"starting_scale", or_null(found.starting_scale())},
                         {"autocast", nullptr}};
  if (trial.has_value()) {
    json["autocast"] = {{"error", trial->failed.empty() ? nlohmann::json(trial->plain) : nullptr},
                        {"error_with_advice", or_null(trial->with_advice)},
                        {"failed", trial->failed}};
  }
  return json;
}

}  // namespace scramjet
