#include "runtime/run.h"

#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <ATen/autocast_mode.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <optional>

#include "codegen/evaluate.h"
#include "runtime/eager_layout.h"
#include "runtime/output_memory.h"
#include "runtime/plain_tensor.h"

namespace scramjet::runtime {
namespace {

using codegen::InputType;
using codegen::cpu::Access;

constexpr size_t kInline = 8;  // operands that need no heap
using Pointers = c10::SmallVector<char*, kInline>;
using Sizes = c10::SmallVector<int64_t, 6>;

// NumPy's broadcasting of all inputs; nullopt where they do not fit (eager raises the error).
std::optional<Sizes> broadcast_sizes(const std::vector<at::Tensor>& inputs, uint64_t chosen) {
  Sizes sizes;
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (!(chosen >> k & 1)) continue;
    const at::IntArrayRef other = inputs[k].sizes();
    if (other.size() > sizes.size()) sizes.insert(sizes.begin(), other.size() - sizes.size(), 1);
    for (size_t d = 0; d < other.size(); ++d) {
      int64_t& size = sizes[sizes.size() - other.size() + d];
      if (size == other[d] || other[d] == 1) continue;
      if (size != 1) return std::nullopt;
      size = other[d];
    }
  }
  return sizes;
}

bool has_unit_dim(at::IntArrayRef sizes) {
  return std::find(sizes.begin(), sizes.end(), 1) != sizes.end();
}

// Contiguous, and with the strides that a fresh tensor has: a dimension of 1 may have any stride,
// and eager keeps it.
bool is_row_major(const at::Tensor& tensor) {
  if (!tensor.is_contiguous()) return false;
  return !has_unit_dim(tensor.sizes()) ||
         tensor.strides() == at::IntArrayRef(c10::contiguous_strides(tensor.sizes()));
}

// Do these strides walk memory element by element, in the order of the dimensions?
bool is_in_order(at::IntArrayRef sizes, at::IntArrayRef strides) {
  int64_t expected = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] == 1) continue;
    if (strides[d] != expected) return false;
    expected *= sizes[d];
  }
  return true;
}

class Execution {
 public:
  Execution(KernelObject& kernel, std::vector<at::Tensor>& inputs)
      : kernel_(kernel), inputs_(inputs) {}

  // False, with the reason, where machine code does not apply.
  bool prepare(std::string* reason) {
    const auto refuse = [&](const char* why) { return *reason = why, false; };
    if (const char* why = why_not_mode()) return refuse(why);
    for (const at::Tensor& tensor : inputs_) {
      if (const char* why = why_not_plain(tensor)) return refuse(why);
      if (const char* why = why_not_autograd(tensor)) return refuse(why);
      if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) return refuse("a wrapped number");
    }
    c10::SmallVector<InputType, kInline> types;
    for (const at::Tensor& tensor : inputs_)
      types.push_back({tensor.scalar_type(), tensor.dim() == 0});
    specialisation_ = &kernel_.specialise(types.data());
    if (!specialisation_->program) return *reason = specialisation_->reason, false;

    const uint64_t all = ~uint64_t{0};
    auto sizes = broadcast_sizes(inputs_, all);
    if (!sizes) return refuse("sizes that do not broadcast");
    sizes_ = std::move(*sizes);
    numel_ = c10::multiply_integers(sizes_);
    if (numel_ == 0) return refuse("no elements");
    const uint64_t every = all >> (64 - inputs_.size());
    for (uint64_t needed : kernel_.dependencies()) {
      if (needed != every && broadcast_sizes(inputs_, needed) != sizes_)
        return refuse("an output smaller than another operand");
    }
    choose_layout();
    return true;
  }

  std::optional<std::vector<at::Tensor>> run(std::string* reason) {
    return flat_ ? run_flat(reason) : run_strided(reason);
  }

 private:
  bool is_full(const at::Tensor& tensor) const { return tensor.sizes() == at::IntArrayRef(sizes_); }

  void choose_layout() {
    const at::Tensor* model = nullptr;  // the input whose strides the outputs get
    bool row_major = true, same_strides = true, in_order = true, whole = true;
    for (const at::Tensor& tensor : inputs_) {
      if (!is_row_major(tensor)) row_major = false;
      if (is_full(tensor)) {
        if (model == nullptr) model = &tensor;
        if (tensor.strides() != model->strides()) same_strides = false;
        if (!tensor.is_contiguous()) in_order = false;
      } else if (tensor.numel() != 1) {
        whole = false;
      }
    }
    if (model == nullptr) whole = false;
    strides_ = c10::contiguous_strides(sizes_);
    flat_ = whole && row_major;
    if (row_major) return;
    if (whole && same_strides && model->is_non_overlapping_and_dense() && !has_unit_dim(sizes_) &&
        kernel_.keeps_strides()) {
      strides_.assign(model->strides().begin(), model->strides().end());
      flat_ = true;
      return;
    }
    known_ = layout_as_eager();
    flat_ = whole && in_order &&
            std::all_of(known_->strides.begin(), known_->strides.end(),
                        [&](at::IntArrayRef strides) { return is_in_order(sizes_, strides); });
  }

  // The strides that eager gives the outputs.
  std::shared_ptr<const KnownLayout> layout_as_eager() const {
    std::vector<int64_t> key;
    for (const at::Tensor& input : inputs_) {
      key.insert(key.end(), input.sizes().begin(), input.sizes().end());
      key.insert(key.end(), input.strides().begin(), input.strides().end());
    }
    auto known = specialisation_->layout.load();
    if (known != nullptr && known->inputs == key) return known;
    auto made = std::make_shared<KnownLayout>();
    made->inputs = std::move(key);
    for (const at::Tensor& shadow :
         eager_layout(kernel_.kernel(), inputs_, specialisation_->dtypes)) {
      made->strides.emplace_back(shadow.strides());
    }
    specialisation_->layout.store(made);
    return made;
  }

  at::IntArrayRef output_strides(size_t k) const {
    return known_ != nullptr ? at::IntArrayRef(known_->strides[k]) : at::IntArrayRef(strides_);
  }

  const std::vector<codegen::Store>& stores() const { return specialisation_->program->outputs; }

  at::Tensor make_output(size_t k) {
    const at::ScalarType dtype = stores()[k].memory;
    for (at::Tensor& tensor : inputs_) {
      if (tensor.defined() && tensor.scalar_type() == dtype && is_full(tensor) &&
          tensor.strides() == output_strides(k) && is_reusable(tensor)) {
        return std::move(tensor);
      }
    }
    return allocate_output(sizes_, output_strides(k), dtype);
  }

  std::optional<std::vector<at::Tensor>> run_flat(std::string* reason) {
    const size_t count = stores().size(), operands = count + inputs_.size();
    c10::SmallVector<Access, kInline> access(count, Access::kContiguous);
    c10::SmallVector<int64_t, 2 * kInline> strides;
    for (const codegen::Store& store : stores())
      strides.push_back(static_cast<int64_t>(c10::elementSize(store.memory)));
    Pointers inputs;
    for (const at::Tensor& tensor : inputs_) {
      const bool whole = tensor.numel() == numel_;
      access.push_back(whole ? Access::kContiguous : Access::kBroadcast);
      strides.push_back(whole ? static_cast<int64_t>(tensor.element_size()) : 0);
      inputs.push_back(static_cast<char*>(const_cast<void*>(tensor.const_data_ptr())));
    }
    strides.resize(2 * operands, 0);
    const Variant& variant = kernel_.variant(*specialisation_, access.data(), operands);
    if (!variant.code) return *reason = variant.reason, std::nullopt;

    std::vector<at::Tensor> outputs;
    Pointers base;
    for (size_t k = 0; k < count; ++k) {
      outputs.push_back(make_output(k));
      base.push_back(static_cast<char*>(outputs.back().mutable_data_ptr()));
    }
    base.append(inputs.begin(), inputs.end());
    const auto loop = variant.code->loop();
    const auto chunk = [&](int64_t begin, int64_t end) {
      Pointers pointers = base;
      for (size_t k = 0; k < operands; ++k) pointers[k] += begin * strides[k];
      loop(pointers.data(), strides.data(), end - begin, 1);
    };
    if (numel_ < at::internal::GRAIN_SIZE) {
      chunk(0, numel_);
    } else {
      at::parallel_for(0, numel_, at::internal::GRAIN_SIZE, chunk);
    }
    return outputs;
  }

  std::optional<std::vector<at::Tensor>> run_strided(std::string* reason) {
    std::vector<at::Tensor> outputs;
    for (size_t k = 0; k < stores().size(); ++k) {
      outputs.push_back(allocate_output(sizes_, output_strides(k), stores()[k].memory));
    }
    at::TensorIteratorConfig config;
    config.set_check_mem_overlap(false).check_all_same_dtype(false).resize_outputs(false);
    for (const at::Tensor& output : outputs) config.add_output(output);
    for (const at::Tensor& input : inputs_) config.add_const_input(input);
    at::TensorIterator iterator = config.build();
    const size_t operands = outputs.size() + inputs_.size();
    c10::SmallVector<Access, kInline> access;
    for (size_t k = 0; k < operands; ++k)
      access.push_back(access_of(iterator, static_cast<int>(k)));
    const Variant& variant = kernel_.variant(*specialisation_, access.data(), operands);
    if (!variant.code) return *reason = variant.reason, std::nullopt;
    iterator.for_each(variant.code->loop(), at::internal::GRAIN_SIZE);
    return outputs;
  }

  static Access access_of(const at::TensorIterator& iterator, int operand) {
    const at::IntArrayRef strides = iterator.strides(operand);
    const int64_t stride = strides.empty() ? 0 : strides[0];
    const bool output = operand < iterator.noutputs();
    if (stride == 0 && !output) return Access::kBroadcast;
    const bool unit = stride == static_cast<int64_t>(iterator.element_size(operand));
    return unit || strides.empty() ? Access::kContiguous : Access::kStrided;
  }

  KernelObject& kernel_;
  std::vector<at::Tensor>& inputs_;
  const Specialisation* specialisation_ = nullptr;
  Sizes sizes_;
  c10::DimVector strides_;
  int64_t numel_ = 0;
  std::shared_ptr<const KnownLayout> known_;  // where the strides follow no simple rule
  // Every operand is one run over all elements in the same order, or one element.
  bool flat_ = false;
};

}  // namespace

std::vector<at::Tensor> run(KernelObject& kernel, std::vector<at::Tensor> inputs) {
  TORCH_CHECK_VALUE(inputs.size() == static_cast<size_t>(kernel.kernel().num_inputs),
                    "scramjet::run: kernel ", kernel.kernel().name, " takes ",
                    kernel.kernel().num_inputs, " inputs, got ", inputs.size());
  RECORD_FUNCTION(kernel.label().c_str(), c10::ArrayRef<const c10::IValue>{});
  std::string reason;
  {
    Execution execution(kernel, inputs);
    if (execution.prepare(&reason)) {
      if (auto outputs = execution.run(&reason)) return std::move(*outputs);
    }
  }
  return codegen::evaluate(kernel.kernel(), inputs);
}

std::string why_op_by_op(KernelObject& kernel, const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> copy = inputs;
  std::string reason;
  Execution execution(kernel, copy);
  if (execution.prepare(&reason)) execution.run(&reason);
  return reason;
}

}  // namespace scramjet::runtime
