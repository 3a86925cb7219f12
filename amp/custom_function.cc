#include "amp/custom_function.h"

#include <ATen/autocast_mode.h>

namespace scramjet::amp {
namespace {

using torch::autograd::AutogradContext;

// Among the user's own entries of saved_data, hence the long names.
constexpr char kDevice[] = "scramjet::amp::device";
constexpr char kDtype[] = "scramjet::amp::dtype";
constexpr char kEnabled[] = "scramjet::amp::enabled";

const c10::IValue& saved(AutogradContext* ctx, const char* key) {
  const auto found = ctx->saved_data.find(key);
  TORCH_CHECK(found != ctx->saved_data.end(),
              "BackwardScope: expected a ForwardScope in this function's forward, got none");
  return found->second;
}

c10::DeviceType device_of_forward(AutogradContext* ctx) {
  return static_cast<c10::DeviceType>(saved(ctx, kDevice).toInt());
}

AutocastOptions state_of_forward(AutogradContext* ctx) {
  return {.dtype = saved(ctx, kDtype).toScalarType(), .enabled = saved(ctx, kEnabled).toBool()};
}

}  // namespace

ForwardScope::ForwardScope(AutogradContext* ctx, c10::DeviceType device,
                           std::optional<c10::ScalarType> cast_inputs)
    : device_(device) {
  const bool enabled = at::autocast::is_autocast_enabled(device);
  ctx->saved_data[kDevice] = static_cast<int64_t>(device);
  ctx->saved_data[kDtype] = at::autocast::get_autocast_dtype(device);
  ctx->saved_data[kEnabled] = enabled && !cast_inputs.has_value();
  if (enabled && cast_inputs.has_value()) {
    cast_to_ = cast_inputs;
    disabled_.emplace(device, AutocastOptions{.enabled = false});
  }
}

at::Tensor ForwardScope::cast(const at::Tensor& value) const {
  const bool eligible = cast_to_.has_value() && value.defined() && value.is_floating_point() &&
                        value.device().type() == device_ && value.scalar_type() != at::kDouble;
  return eligible ? value.to(*cast_to_) : value;
}

std::optional<at::Tensor> ForwardScope::cast(const std::optional<at::Tensor>& value) const {
  return value.has_value() ? std::optional<at::Tensor>(cast(*value)) : std::nullopt;
}

std::vector<at::Tensor> ForwardScope::cast(at::TensorList values) const {
  std::vector<at::Tensor> result;
  result.reserve(values.size());
  for (const at::Tensor& value : values) result.push_back(cast(value));
  return result;
}

std::vector<at::Tensor> ForwardScope::cast(const std::vector<at::Tensor>& values) const {
  return cast(at::TensorList(values));
}

BackwardScope::BackwardScope(AutogradContext* ctx)
    : autocast_(device_of_forward(ctx), state_of_forward(ctx)) {}

}  // namespace scramjet::amp
