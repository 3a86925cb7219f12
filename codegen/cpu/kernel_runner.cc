#include "codegen/cpu/kernel_runner.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <deque>
#include <iostream>

namespace scramjet::codegen::cpu {
namespace {

constexpr char kFiller = 0x5a;

// `size` bytes of which the first or the last touches a page that cannot be accessed.
class GuardedMemory {
 public:
  GuardedMemory(int64_t size, Edge edge)
      : page_(sysconf(_SC_PAGESIZE)), inner_((size + page_ - 1) / page_ * page_) {
    map_ = static_cast<char*>(
        mmap(nullptr, inner_ + 2 * page_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(map_ + page_, inner_, PROT_READ | PROT_WRITE);
    std::memset(map_ + page_, kFiller, inner_);
    data_ = map_ + page_ + (edge == Edge::kBack ? inner_ - size : 0);
  }
  GuardedMemory(const GuardedMemory&) = delete;
  ~GuardedMemory() { munmap(map_, inner_ + 2 * page_); }
  char* data() const { return data_; }

 private:
  int64_t page_, inner_;
  char *map_, *data_;
};

// One operand in guarded memory. Rows lie one element (contiguous, broadcast) or a stride further
// than they need to.
class Operand {
 public:
  Operand(at::ScalarType type, Access access, int64_t size0, const Layout& layout)
      : size_(static_cast<int64_t>(c10::elementSize(type))),
        columns_(access == Access::kBroadcast ? 1 : size0),
        rows_(layout.rows),
        inner_((access == Access::kStrided     ? layout.stride
                : access == Access::kBroadcast ? 0
                                               : 1) *
               size_),
        outer_((columns_ + 1) * std::max(std::abs(inner_), size_)),
        length_(size0 == 0 ? 0 : (rows_ - 1) * outer_ + (columns_ - 1) * std::abs(inner_) + size_),
        memory_(length_, layout.edge) {}

  char* base() const {
    return memory_.data() + (inner_ < 0 && columns_ > 0 ? (columns_ - 1) * -inner_ : 0);
  }
  int64_t inner() const { return inner_; }
  int64_t outer() const { return outer_; }

  void write(const Array& array) {
    for_each([&](char* element, int64_t k) {
      std::memcpy(element, array.bytes.data() + k * size_, size_);
    });
  }

  Array read(at::ScalarType type) const {
    Array array{type, std::vector<char>(length_ == 0 ? 0 : rows_ * columns_ * size_)};
    for_each([&](char* element, int64_t k) {
      std::memcpy(array.bytes.data() + k * size_, element, size_);
    });
    return array;
  }

  // Everything between the elements is as it was.
  bool gaps_are_intact() const {
    std::vector<char> copy(memory_.data(), memory_.data() + length_);
    for_each([&](char* element, int64_t) {
      std::memset(copy.data() + (element - memory_.data()), kFiller, size_);
    });
    return copy == std::vector<char>(length_, kFiller);
  }

 private:
  template <typename Function>
  void for_each(const Function& function) const {
    if (length_ == 0) return;
    for (int64_t row = 0; row < rows_; ++row) {
      for (int64_t k = 0; k < columns_; ++k)
        function(base() + row * outer_ + k * inner_, row * columns_ + k);
    }
  }

  int64_t size_, columns_, rows_, inner_, outer_, length_;
  GuardedMemory memory_;
};

std::vector<Access> accesses(const ScalarProgram& program, const Layout& layout) {
  if (!layout.access.empty()) return layout.access;
  return std::vector<Access>(program.outputs.size() + program.inputs.size(), Access::kContiguous);
}

}  // namespace

std::vector<Target> targets() {
  std::vector<Target> found;
  for (Target target : {Target::kSse, Target::kAvx2, Target::kAvx512}) {
    if (host_supports(target)) found.push_back(target);
  }
  return found;
}

std::string name_of(Target target) {
  return target == Target::kAvx512 ? "AVX-512"
         : target == Target::kAvx2 ? "AVX2"
         : target == Target::kSse  ? "SSE"
                                   : "host";
}

std::shared_ptr<const CompiledKernel> compile_for_test(const ScalarProgram& program, Target target,
                                                       const Layout& layout) {
  std::string reason;
  auto kernel =
      compile({program, accesses(program, layout), layout.fast_math, "test"}, &reason, target);
  if (kernel == nullptr) {
    std::cerr << name_of(target) << ": " << reason << '\n' << program.to_string();
    std::exit(1);
  }
  return kernel;
}

std::vector<Array> run(const ScalarProgram& program, const std::vector<Array>& inputs,
                       int64_t size0, Target target, const Layout& layout) {
  return run(*compile_for_test(program, target, layout), program, inputs, size0, layout);
}

std::vector<Array> run(const CompiledKernel& kernel, const ScalarProgram& program,
                       const std::vector<Array>& inputs, int64_t size0, const Layout& layout) {
  const size_t outputs = program.outputs.size(), count = outputs + inputs.size();
  const std::vector<Access> access = accesses(program, layout);
  std::deque<Operand> operands;
  for (size_t k = 0; k < count; ++k) {
    const at::ScalarType type =
        k < outputs ? program.outputs[k].memory : program.inputs[k - outputs];
    operands.emplace_back(type, access[k], size0, layout);
    if (k >= outputs) operands.back().write(inputs[k - outputs]);
  }
  std::vector<char*> pointers(count);
  std::vector<int64_t> strides(2 * count);
  const size_t first = layout.in_place < 0 ? 0 : outputs + layout.in_place;  // where output 0 lies
  for (size_t k = 0; k < count; ++k) {
    const Operand& operand = operands[k == 0 ? first : k];
    pointers[k] = operand.base();
    strides[k] = operand.inner();
    strides[count + k] = operand.outer();
  }
  kernel.loop()(pointers.data(), strides.data(), size0, layout.rows);
  std::vector<Array> results;
  for (size_t k = 0; k < outputs; ++k) {
    const Operand& operand = operands[k == 0 ? first : k];
    results.push_back(operand.read(program.outputs[k].memory));
    EXPECT_TRUE(operand.gaps_are_intact()) << "wrote between the elements of output " << k;
  }
  return results;
}

}  // namespace scramjet::codegen::cpu
