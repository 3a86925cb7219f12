#include "runtime/kernel_object.h"

#include <algorithm>
#include <unordered_map>

#include "codegen/pointwise_ops.h"

namespace scramjet::runtime {
namespace {

using codegen::InputType;
using codegen::cpu::Access;

std::atomic<int64_t> compilation_count{0};

// Equal programs compile once a process: a module that is saved and loaded again, or two with the
// same layers, share their machine code.
class CodeCache {
 public:
  std::shared_ptr<const codegen::cpu::CompiledKernel> get(const codegen::cpu::CompileSpec& spec,
                                                          std::string* reason) {
    std::string key = spec.program.to_string();
    for (Access access : spec.access) key += static_cast<char>('0' + static_cast<int>(access));
    key += spec.fast_math ? 'f' : 'p';
    {
      const std::lock_guard lock(mutex_);
      if (auto code = codes_[key].lock()) return code;
    }
    auto code = codegen::cpu::compile(spec, reason);
    if (code) {
      ++compilation_count;
      const std::lock_guard lock(mutex_);
      codes_[key] = code;
    }
    return code;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::weak_ptr<const codegen::cpu::CompiledKernel>> codes_;
};

CodeCache& code_cache() {
  static CodeCache* cache = new CodeCache;  // outlives every kernel, also those freed at exit
  return *cache;
}

std::vector<uint64_t> output_dependencies(const codegen::Kernel& kernel) {
  std::vector<uint64_t> bits;
  for (int32_t k = 0; k < kernel.num_inputs; ++k) bits.push_back(uint64_t{1} << k);
  for (const codegen::Node& node : kernel.nodes) {
    uint64_t all = 0;
    for (const codegen::Argument& argument : node.arguments) {
      if (argument.is_value()) all |= bits[argument.value];
    }
    bits.push_back(all);
  }
  std::vector<uint64_t> outputs;
  for (int32_t output : kernel.outputs) outputs.push_back(bits[output]);
  return outputs;
}

template <class T>
void free_list(T* head) {
  while (head != nullptr) delete std::exchange(head, head->next);
}

}  // namespace

int64_t compilations() { return compilation_count; }

Specialisation::~Specialisation() { free_list(variants.load()); }

KernelObject::KernelObject(codegen::Kernel kernel, KernelOptions options)
    : kernel_(std::move(kernel)),
      options_(options),
      label_("scramjet::fused_" + kernel_.name),
      dependencies_(output_dependencies(kernel_)),
      keeps_strides_(
          std::none_of(kernel_.nodes.begin(), kernel_.nodes.end(), [](const codegen::Node& node) {
            return node.op->strides == codegen::StrideRule::kContiguous;
          })) {}

KernelObject::~KernelObject() { free_list(specialisations_.load()); }

c10::intrusive_ptr<KernelObject> KernelObject::from_text(const std::string& text) {
  KernelOptions options;
  std::string rest = text;
  const auto take = [&rest](const std::string& line) {
    if (rest.rfind(line, 0) != 0) return false;
    rest.erase(0, line.size());
    return true;
  };
  options.fast_math = take("option fast_math\n");
  options.round_like_eager = !take("option round_once\n");
  return c10::make_intrusive<KernelObject>(codegen::Kernel::parse(rest), options);
}

std::string KernelObject::text() const {
  std::string text;
  if (options_.fast_math) text += "option fast_math\n";
  if (!options_.round_like_eager) text += "option round_once\n";
  return text + kernel_.text();
}

const Specialisation& KernelObject::specialise(const InputType* inputs) {
  const auto find = [&]() -> Specialisation* {
    Specialisation* at = specialisations_.load(std::memory_order_acquire);
    while (at != nullptr && !std::equal(at->inputs.begin(), at->inputs.end(), inputs))
      at = at->next;
    return at;
  };
  if (Specialisation* found = find()) return *found;
  const std::lock_guard lock(make_);
  if (Specialisation* found = find()) return *found;
  auto made = std::make_unique<Specialisation>();
  made->inputs.assign(inputs, inputs + kernel_.num_inputs);
  made->program =
      codegen::lower(kernel_, made->inputs, {.round_like_eager = options_.round_like_eager},
                     &made->dtypes, &made->reason);
  made->next = specialisations_.load();
  specialisations_.store(made.get(), std::memory_order_release);
  return *made.release();
}

const Variant& KernelObject::variant(const Specialisation& specialisation, const Access* access,
                                     size_t operands) {
  auto& list = const_cast<Specialisation&>(specialisation).variants;
  const auto find = [&]() -> Variant* {
    Variant* at = list.load(std::memory_order_acquire);
    while (at != nullptr && !std::equal(at->access.begin(), at->access.end(), access))
      at = at->next;
    return at;
  };
  if (Variant* found = find()) return *found;
  const std::lock_guard lock(make_);
  if (Variant* found = find()) return *found;
  auto made = std::make_unique<Variant>();
  made->access.assign(access, access + operands);
  made->code = code_cache().get(
      {*specialisation.program, made->access, options_.fast_math, kernel_.name}, &made->reason);
  made->next = list.load();
  list.store(made.get(), std::memory_order_release);
  return *made.release();
}

void KernelObject::compile_usual() {
  const std::vector<InputType> floats(kernel_.num_inputs, {at::kFloat, /*zero_dim=*/false});
  const Specialisation& usual = specialise(floats.data());
  if (!usual.program) return;
  const std::vector<Access> access(kernel_.outputs.size() + kernel_.num_inputs,
                                   Access::kContiguous);
  variant(usual, access.data(), access.size());
}

}  // namespace scramjet::runtime
