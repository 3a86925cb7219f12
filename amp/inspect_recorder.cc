#include "amp/inspect_recorder.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <algorithm>

namespace scramjet::amp {
namespace {

// The callbacks are plain functions.
thread_local InspectRecorder* active = nullptr;

class ActiveRecorder {
 public:
  explicit ActiveRecorder(InspectRecorder* recorder) : outer_(std::exchange(active, recorder)) {}
  ~ActiveRecorder() { active = outer_; }
  ActiveRecorder(const ActiveRecorder&) = delete;
  ActiveRecorder& operator=(const ActiveRecorder&) = delete;

 private:
  InspectRecorder* outer_;
};

class CallbackGuard {
 public:
  explicit CallbackGuard(at::RecordFunctionCallback callback)
      : handle_(at::addThreadLocalCallback(callback)) {}
  ~CallbackGuard() { at::removeCallback(handle_); }
  CallbackGuard(const CallbackGuard&) = delete;
  CallbackGuard& operator=(const CallbackGuard&) = delete;

 private:
  at::CallbackHandle handle_;
};

void append_floating(const c10::IValue& value, std::vector<at::Tensor>& tensors) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    // Other layouts have no elements to look at one by one.
    if (tensor.defined() && tensor.is_floating_point() && tensor.layout() == at::kStrided) {
      tensors.push_back(tensor);
    }
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) append_floating(item, tensors);
  }
}

/// The dispatcher hands over the interpreter's whole stack, other values below the operator's own.
at::ArrayRef<c10::IValue> top_of_stack(at::ArrayRef<c10::IValue> stack, size_t count) {
  return stack.slice(stack.size() - std::min(count, stack.size()));
}

std::vector<at::Tensor> floating_tensors(at::ArrayRef<c10::IValue> values) {
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& value : values) append_floating(value, tensors);
  return tensors;
}

/// A copy, so that nothing that is done to it reaches the original.
c10::IValue cast(const c10::IValue& value, c10::ScalarType dtype) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (!tensor.defined() || !tensor.is_floating_point()) return value;
    return tensor.to(dtype, /*non_blocking=*/false, /*copy=*/true);
  }
  if (value.isList() && value.type()->cast<c10::ListType>() != nullptr) {
    c10::impl::GenericList items(value.toList().elementType());
    for (const c10::IValue& item : value.toListRef()) items.push_back(cast(item, dtype));
    return items;
  }
  return value;
}

bool has_floating_tensor(const c10::IValue& value) {
  std::vector<at::Tensor> tensors;
  append_floating(value, tensors);
  return !tensors.empty();
}

/// A view, whose result is its argument's memory.
bool is_view(const c10::FunctionSchema& schema) {
  return std::ranges::any_of(schema.returns(), [](const c10::Argument& result) {
    return result.alias_info() != nullptr && !result.alias_info()->isWrite();
  });
}

/// Why running the operator twice would change something; empty where it would not.
std::string side_effect(const c10::OperatorHandle& op, at::ArrayRef<c10::IValue> inputs) {
  const std::vector<c10::Argument>& arguments = op.schema().arguments();
  bool trains = true;
  for (size_t k = 0; k < inputs.size(); ++k) {
    const c10::Argument& argument = arguments[k];
    const bool is_written = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    if (is_written && !has_floating_tensor(inputs[k])) {
      return "writes to its argument '" + argument.name() + "'";
    }
    if (inputs[k].isBool() && (argument.name() == "train" || argument.name() == "training")) {
      trains = inputs[k].toBool();
    }
  }
  if (trains && op.hasTag(at::Tag::nondeterministic_seeded)) return "draws random numbers";
  return {};
}

std::string first_line(std::string text) { return text.substr(0, text.find('\n')); }

}  // namespace

struct InspectRecorder::Call : at::ObserverContext {
  size_t report = 0;
  size_t result_count = 0;
  bool is_looked_at = false;
  bool narrow = false;
  bool reads_overflows = false;
  std::vector<at::Tensor> in_format;  // what the operator answers in the format
};

InspectRecorder::InspectRecorder(const InspectOptions& options, c10::DeviceType device,
                                 const std::vector<std::pair<std::string, at::Tensor>>& parameters)
    : dtype_(options.dtype), format_(*float_format(options.dtype)), device_(device) {
  for (const auto& [name, parameter] : parameters) {
    const size_t dot = name.rfind('.');
    if (dot == std::string::npos || !parameter.has_storage()) continue;
    parameter_layers_.emplace(parameter.storage().unsafeGetStorageImpl(), name.substr(0, dot));
  }
}

c10::IValue InspectRecorder::watch(const std::function<c10::IValue()>& forward) {
  const ActiveRecorder recorder(this);
  const CallbackGuard callback(at::RecordFunctionCallback(&on_start, &on_end)
                                   .needsInputs(true)
                                   .needsOutputs(true)
                                   .scopes({at::RecordScope::FUNCTION}));
  return forward();
}

std::unique_ptr<at::ObserverContext> InspectRecorder::on_start(const at::RecordFunction& function) {
  if (active == nullptr || active->depth_++ > 0) return nullptr;
  // Our own operators in here are not the model's.
  const at::DisableRecordFunctionGuard no_record;
  const c10::NoGradGuard no_grad;
  return active->start(function);
}

void InspectRecorder::on_end(const at::RecordFunction& function, at::ObserverContext* context) {
  if (active == nullptr) return;
  --active->depth_;
  if (context == nullptr) return;
  const at::DisableRecordFunctionGuard no_record;
  active->end(static_cast<Call&>(*context), function.outputs());
}

std::string InspectRecorder::layer_of(const std::vector<at::Tensor>& inputs) {
  for (const at::Tensor& input : inputs) {
    if (!input.has_storage()) continue;
    const auto found = parameter_layers_.find(input.storage().unsafeGetStorageImpl());
    if (found != parameter_layers_.end()) return last_layer_ = found->second;
  }
  // Entries such as "a(A)::forward"; not those of functions and of the module's other methods.
  std::string path;
  bool in_script = false;
  for (const std::string& entry : torch::jit::currentModuleHierarchy()) {
    in_script = true;
    const std::string name = entry.substr(0, entry.find('('));
    if (name == "TOP" || name == "SELF" || name.find(':') != std::string::npos) continue;
    path += (path.empty() ? "" : ".") + name;
  }
  if (in_script) return path;
  return last_layer_.empty() ? "" : "after " + last_layer_;
}

std::unique_ptr<InspectRecorder::Call> InspectRecorder::start(const at::RecordFunction& function) {
  auto call = std::make_unique<Call>();
  const std::optional<c10::OperatorName> name = function.operator_name();
  if (!name.has_value()) return call;
  const auto op = c10::Dispatcher::singleton().findSchema(*name);
  if (!op.has_value()) return call;
  const auto arguments = top_of_stack(function.inputs(), op->schema().arguments().size());
  call->result_count = op->schema().returns().size();
  const std::vector<at::Tensor> inputs = floating_tensors(arguments);
  const std::optional<CastPolicy> policy = cast_policy(device_, *name);
  const bool reads_narrow = std::ranges::any_of(inputs, [this](const at::Tensor& input) {
    return narrow_.contains(input.unsafeGetTensorImpl());
  });
  const bool follows = !policy.has_value() || policy == CastPolicy::promote;
  call->narrow = policy == CastPolicy::lower_precision_fp || (follows && reads_narrow);
  if (inputs.empty() || is_view(op->schema())) return call;

  const auto place = std::pair(layer_of(inputs), c10::toString(*name));
  const auto [found, is_new] = by_place_.emplace(place, reports_.size());
  if (is_new) {
    reports_.emplace_back(format_);
    std::tie(reports_.back().layer, reports_.back().op) = place;
    reports_.back().policy = policy;
  }
  call->report = found->second;
  call->is_looked_at = true;
  OperatorReport& report = reports_[call->report];
  report.narrow |= call->narrow;
  const int64_t overflows = report.inputs.overflowed();
  for (const at::Tensor& input : inputs) report.inputs.add(input);
  call->reads_overflows = report.inputs.overflowed() > overflows;
  run_in_format(*call, *op, arguments);
  return call;
}

void InspectRecorder::run_in_format(Call& call, const c10::OperatorHandle& op,
                                    at::ArrayRef<c10::IValue> inputs) {
  OperatorReport& report = reports_[call.report];
  std::string reason = side_effect(op, inputs);
  if (reason.empty()) {
    torch::jit::Stack stack;
    for (const c10::IValue& input : inputs) stack.push_back(cast(input, dtype_));
    try {
      op.callBoxed(stack);
      call.in_format = floating_tensors(stack);
    } catch (const c10::Error& error) {
      reason = "fails: " + first_line(error.what_without_backtrace());
    } catch (const std::exception& error) {
      reason = "fails: " + first_line(error.what());
    }
  }
  if (!reason.empty()) report.not_run = reason;
}

void InspectRecorder::end(Call& call, const std::vector<c10::IValue>& values) {
  const std::vector<at::Tensor> outputs = floating_tensors(top_of_stack(values, call.result_count));
  for (const at::Tensor& output : outputs) {
    if (call.narrow) {
      narrow_.insert(output.unsafeGetTensorImpl());
    } else {
      narrow_.erase(output.unsafeGetTensorImpl());
    }
  }
  if (!call.is_looked_at || outputs.empty()) return;
  OperatorReport& report = reports_[call.report];
  ++report.calls;
  const int64_t overflows = report.outputs.overflowed();
  for (const at::Tensor& output : outputs) {
    const c10::NoGradGuard no_grad;
    report.outputs.add(output);
  }
  if (!call.reads_overflows) report.overflows_made += report.outputs.overflowed() - overflows;
  for (const at::Tensor& output : outputs) {
    if (output.requires_grad()) watch_gradient(call.report, output);
  }
  if (outputs.size() != call.in_format.size()) return;
  const c10::NoGradGuard no_grad;
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (outputs[k].sizes() != call.in_format[k].sizes()) continue;
    const double error = relative_error(outputs[k], call.in_format[k]) / format_.epsilon();
    report.error = std::max(report.error.value_or(0), error);
  }
}

void InspectRecorder::watch_gradient(size_t report, const at::Tensor& output) {
  // The graph may outlive the recorder, and a hook that owned it would own itself.
  output.register_hook(
      [recorder = weak_from_this(), report,
       of = static_cast<const void*>(output.unsafeGetTensorImpl())](const at::Tensor& gradient) {
        const std::shared_ptr<InspectRecorder> alive = recorder.lock();
        if (alive == nullptr || of == alive->loss_ || !gradient.defined()) return;
        const std::lock_guard lock(alive->gradients_);
        alive->reports_[report].gradients.add(gradient);
      });
}

}  // namespace scramjet::amp
