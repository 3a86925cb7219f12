#pragma once

// Which parts of a model a narrow format can hold: runs the model once as it is, looks at every
// operator's results, and says what float16 or bfloat16 would overflow, flush to 0 or round badly,
// what to keep in float32, and with which scale to start a GradScaler. Use it before training or
// serving under autocast, or where a run under autocast went wrong. `./scramjet doctor` prints it.
//
//     InspectOptions options;
//     options.loss = [&](const c10::IValue& output) {
//       return at::mse_loss(output.toTensor(), target);
//     };
//     const Inspection found = inspect(torch::jit::load("m.pt"), {input}, options);
//     for (const std::string& op : found.keep_in_fp32()) …  // "aten::pow.Tensor_Scalar"
//     GradScaler scaler(at::kCUDA, GradScalerOptions().init_scale(*found.starting_scale()));
//
// Rules:
// - Every operator also runs a second time, on its inputs cast to the format. How far its result
//   is from the first is its error, in epsilons of the format. Operators that draw random numbers,
//   or that have no kernel for the dtype, have none and say why.
// - An operator is one call of the dispatcher from the model: aten::linear, not the aten::addmm in
//   it. Views, and operators without floating-point inputs and results, are left out.
// - The loss is not looked at: compute it in float32.
// - One batch is one sample: values differ between batches, and gradients change as training goes
//   on.
// - What TorchScript's `fork` runs in other threads is not seen, nor what is inside one operator
//   (a module that is compiled already: inspect the original).

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>
#include <torch/csrc/jit/api/module.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "amp/cast_policy.h"
#include "amp/value_range.h"

namespace scramjet::amp {

struct InspectOptions {
  /// The format to judge by: half or bfloat16.
  c10::ScalarType dtype = c10::kHalf;
  /// From the model's output to a loss of one element, whose gradients are then looked at too.
  std::function<at::Tensor(const c10::IValue& output)> loss = nullptr;
  /// Whose autocast lists count. Default: the device of the model's parameters, else of its inputs.
  std::optional<c10::DeviceType> device = std::nullopt;
  /// In epsilons of the format, the error from which an operator is to stay in float32. Rounding
  /// inputs and result alone makes errors of about 1.
  double tolerance = 8;
};

/// One operator in one place of the model; all of its calls there.
struct OperatorReport {
  explicit OperatorReport(const FloatFormat& format)
      : inputs(format), outputs(format), gradients(format) {}

  /// The module that holds the operator's parameter ("encoder.0.linear1"), else the one that calls
  /// it; for a function, "after fc1" behind the last module that was known.
  std::string layer;
  std::string op;  ///< "aten::linear", "aten::softmax.int"
  int64_t calls = 0;
  std::optional<CastPolicy> policy;  ///< torch's autocast, on InspectOptions::device
  bool narrow = false;               ///< autocast runs it in the format, or may
  ValueRange inputs;                 ///< of the floating-point tensors, parameters included
  ValueRange outputs;
  int64_t overflows_made = 0;  ///< of the outputs' overflows, those from inputs without any
  ValueRange gradients;        ///< of the outputs
  /// ‖y' - y‖ / ‖y‖ in epsilons of the format, where y' is what the operator answers in the format;
  /// the largest of all calls, infinite where y' alone has an infinity or NaN.
  std::optional<double> error;
  std::string not_run;       ///< why there is no error
  std::string keep_in_fp32;  ///< why it should stay in float32; empty: it need not
};

struct TensorReport {
  TensorReport(std::string name, const FloatFormat& format)
      : name(std::move(name)), values(format), gradients(format) {}

  std::string name;
  ValueRange values;
  ValueRange gradients;  ///< of parameters; nothing counted without a loss
};

struct Inspection {
  FloatFormat format;
  double epsilon() const { return format.epsilon(); }
  std::vector<OperatorReport> operators;  ///< in the order of their first calls
  std::vector<TensorReport> inputs;       ///< floating-point ones; "input 0", …
  std::vector<TensorReport> parameters;

  /// Operators to keep in float32 beside those that autocast keeps there: name and overload, each
  /// once. For CompileOptions::autocast's overrides.
  std::vector<std::string> keep_in_fp32() const;

  /// The largest gradient that autocast holds in the format, or may; 0 where there is none.
  double largest_gradient() const;
  /// For half: the largest power of two that leaves the largest gradient a factor of 4 below the
  /// format's largest number. None without gradients, and for bfloat16, which has float32's range.
  std::optional<double> starting_scale() const;
};

/// ‖got - want‖ / ‖want‖ over the elements that are finite in `want`, in any floating-point dtypes;
/// infinite where `got` is not finite there, or `want` is all 0 and `got` is not.
double relative_error(const at::Tensor& want, const at::Tensor& got);

/// Runs a copy of `model`: its parameters, buffers and gradients stay as they are. Train or eval
/// mode is the model's. Throws c10::ValueError for another dtype, for a loss that is not one
/// element or reaches no parameter, and what the model throws.
Inspection inspect(const torch::jit::Module& model, const std::vector<c10::IValue>& inputs,
                   const InspectOptions& options = {});

/// The same for a model in C++, whose `forward` is called once; buffers change as in any call,
/// parameters and their gradients do not:
///
///     inspect([&] { return net->forward(x); }, net->named_parameters().pairs(), options);
Inspection inspect(const std::function<c10::IValue()>& forward,
                   const std::vector<std::pair<std::string, at::Tensor>>& parameters,
                   const InspectOptions& options = {});

}  // namespace scramjet::amp
