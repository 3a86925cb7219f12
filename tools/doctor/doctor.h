#pragma once

// What `scramjet doctor` does with a model: looks at it in float32 (amp/inspect.h), tries the
// advice, and words both.

#include <torch/csrc/jit/api/module.h>

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "amp/inspect.h"

namespace scramjet {

/// A loss by name: "output" (the model's output is the loss), "sum" or "mean" of the output, "mse"
/// or "cross_entropy" of the output and `target`. A tuple or list stands for its first element.
/// Throws c10::ValueError for another name, and where a target is missing or too much.
std::function<at::Tensor(const c10::IValue&)> loss_named(const std::string& name,
                                                         const std::optional<at::Tensor>& target);

/// How far the outputs are from the model's own in float32, as ‖difference‖ / ‖output‖, under
/// autocast in the graph (CompileOptions::autocast) on the CPU.
struct AutocastTrial {
  double plain = 0;
  std::optional<double> with_advice;  ///< with keep_in_fp32() in float32; none without such advice
  std::string failed;                 ///< why there are no numbers; else empty
};

/// Runs copies of `model`, in the mode that it is in and without gradients.
AutocastTrial try_autocast(const torch::jit::Module& model, const std::vector<c10::IValue>& inputs,
                           c10::ScalarType dtype, const std::vector<std::string>& keep_in_fp32);

std::string diagnosis_text(const amp::Inspection& found, const std::optional<AutocastTrial>& trial);

/// The same numbers; an infinite error is null, as is one that was not taken.
nlohmann::json diagnosis_json(const amp::Inspection& found,
                              const std::optional<AutocastTrial>& trial);

}  // namespace scramjet
