#pragma once

// KernelObject: `scramjet::Kernel` in TorchScript. A codegen::Kernel with its machine code, by
// specialisation.

#include <ATen/core/ivalue.h>
#include <c10/util/DimVector.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "codegen/cpu/compiled_kernel.h"
#include "codegen/kernel.h"
#include "codegen/lower.h"

namespace scramjet::runtime {

// How a kernel's machine code is made; part of what a module saves.
struct KernelOptions {
  bool fast_math = false;
  bool round_like_eager = true;
};

// The machine code for one way of walking the operands, or why there is none.
struct Variant {
  std::vector<codegen::cpu::Access> access;
  std::shared_ptr<const codegen::cpu::CompiledKernel> code;  // null: not compiled
  std::string reason;
  Variant* next = nullptr;
};

// The outputs' strides for one set of input sizes and strides.
struct KnownLayout {
  std::vector<int64_t> inputs;  // sizes, then strides, of each in turn
  std::vector<c10::DimVector> strides;
};

// What is known of a kernel for one combination of input dtypes.
struct Specialisation {
  std::vector<codegen::InputType> inputs;
  std::optional<codegen::ScalarProgram> program;  // empty: evaluated op by op
  std::vector<codegen::NodeDtypes> dtypes;        // by node
  std::string reason;
  std::atomic<Variant*> variants{nullptr};
  // The last one that had to be worked out (eager_layout); models see few.
  mutable std::atomic<std::shared_ptr<const KnownLayout>> layout;
  Specialisation* next = nullptr;

  ~Specialisation();
};

class KernelObject : public torch::CustomClassHolder {
 public:
  KernelObject(codegen::Kernel kernel, KernelOptions options);
  ~KernelObject() override;

  // The text that a .pt carries: the kernel's, with its options as comment-like first lines
  // ("option fast_math").
  static c10::intrusive_ptr<KernelObject> from_text(const std::string& text);
  std::string text() const;

  const codegen::Kernel& kernel() const { return kernel_; }
  const KernelOptions& options() const { return options_; }
  const std::string& label() const {
    return label_;
  }  // "scramjet::fused_relu_mul_50", for profiles

  // Bit k of element j: does output j depend on input k?
  const std::vector<uint64_t>& dependencies() const { return dependencies_; }

  // Do outputs have the strides of inputs that all have the same?
  bool keeps_strides() const { return keeps_strides_; }

  // Both find or make; made once, kept as long as the object, safe and lock-free to find under
  // concurrent calls.
  const Specialisation& specialise(const codegen::InputType* inputs);
  const Variant& variant(const Specialisation& specialisation, const codegen::cpu::Access* access,
                         size_t operands);

  // Makes the machine code that most models ask for first, float tensors of one contiguous shape,
  // so that the first call need not.
  void compile_usual();

  template <class F>
  void for_each_specialisation(F&& visit) const {
    for (const Specialisation* at = specialisations_; at != nullptr; at = at->next) visit(*at);
  }

 private:
  codegen::Kernel kernel_;
  KernelOptions options_;
  std::string label_;
  std::vector<uint64_t> dependencies_;
  bool keeps_strides_;
  std::atomic<Specialisation*> specialisations_{nullptr};
  std::mutex make_;
};

// How many kernels were compiled to machine code in this process so far.
int64_t compilations();

}  // namespace scramjet::runtime
