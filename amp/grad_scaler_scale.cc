// The half of GradScaler that runs before backward(): outputs times the scale.
#include <ATen/core/List.h>
#include <ATen/core/jit_type.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mul.h>
#include <c10/util/Exception.h>

#include <utility>

#include "amp/grad_scaler.h"

namespace scramjet::amp {
namespace {

/// Scales many outputs with one copy of the scale for each device. Copies even where the scale
/// lives, as Python does for several outputs: backward() reads the copy that was multiplied by,
/// whatever update() did in between.
class OutputScaler {
 public:
  /// Gives the scale; puts it on the device where it does not exist yet.
  using ScaleFor = std::function<at::Tensor(at::Device)>;

  explicit OutputScaler(ScaleFor scale_for) : scale_for_(std::move(scale_for)) {}

  at::Tensor scaled(const at::Tensor& output) {
    check_is_scalable(output.defined(), "an undefined Tensor");
    at::Tensor& scale = scales_[output.device()];
    if (!scale.defined()) {
      scale = scale_for_(output.device())
                  .to(output.device(), at::kFloat, /*non_blocking=*/true, /*copy=*/true);
    }
    return at::mul(output, scale);
  }

  c10::IValue scaled(const c10::IValue& outputs) {
    if (outputs.isTensor()) return scaled(outputs.toTensor());
    if (outputs.isList()) return scaled(outputs.toList());
    if (outputs.isTuple()) return scaled(*outputs.toTuple());
    if (outputs.isGenericDict()) return scaled(outputs.toGenericDict());
    check_is_scalable(false, outputs.tagKind());
    return {};
  }

 private:
  static void check_is_scalable(bool scalable, const std::string& got) {
    TORCH_CHECK_VALUE(
        scalable, "GradScaler.scale(): outputs must be a Tensor or an iterable of Tensors, got ",
        got);
  }

  c10::IValue scaled(const c10::impl::GenericList& list) {
    c10::impl::GenericList result(list.elementType());
    result.reserve(list.size());
    for (size_t i = 0; i < list.size(); ++i) result.push_back(scaled(list.get(i)));
    return result;
  }

  c10::IValue scaled(const c10::ivalue::Tuple& tuple) {
    std::vector<c10::IValue> elements;
    for (const c10::IValue& element : tuple.elements()) elements.push_back(scaled(element));
    // Without a schema the type follows from the elements; a named tuple's has to be carried over.
    const auto type = tuple.type();
    return type->schema() ? c10::ivalue::Tuple::createNamed(std::move(elements), type)
                          : c10::ivalue::Tuple::create(std::move(elements));
  }

  c10::IValue scaled(const c10::impl::GenericDict& dict) {
    c10::impl::GenericDict result(dict.keyType(), dict.valueType());
    for (const auto& entry : dict) result.insert(entry.key(), scaled(entry.value()));
    return result;
  }

  ScaleFor scale_for_;
  std::unordered_map<at::Device, at::Tensor> scales_;
};

}  // namespace

const at::Tensor& GradScaler::scale_for(at::Device device) {
  if (!scale_.defined()) {
    const auto options = at::TensorOptions(device);
    scale_ = at::full({}, options_.init_scale(), options.dtype(at::kFloat));
    growth_tracker_ = at::full({}, init_growth_tracker_, options.dtype(at::kInt));
  }
  return scale_;
}

at::Tensor GradScaler::scale(const at::Tensor& output) {
  if (!is_enabled()) return output;
  TORCH_CHECK_VALUE(output.defined(), "GradScaler.scale(): the output is an undefined Tensor");
  const at::Device device = output.device();
  return at::mul(output, scale_for(device).to(device, at::kFloat, /*non_blocking=*/true));
}

std::vector<at::Tensor> GradScaler::scale(const std::vector<at::Tensor>& outputs) {
  if (!is_enabled()) return outputs;
  OutputScaler scaler([this](at::Device device) { return scale_for(device); });
  std::vector<at::Tensor> result;
  result.reserve(outputs.size());
  for (const at::Tensor& output : outputs) result.push_back(scaler.scaled(output));
  return result;
}

c10::IValue GradScaler::scale(const c10::IValue& outputs) {
  if (!is_enabled()) return outputs;
  return OutputScaler([this](at::Device device) { return scale_for(device); }).scaled(outputs);
}

}  // namespace scramjet::amp
