#pragma once

// For tests: runs a ScalarProgram over arrays, in memory where any access outside the operands is a
// fault.

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "codegen/cpu/compiled_kernel.h"

namespace scramjet::codegen::cpu {

// Elements of one dtype, without gaps.
struct Array {
  at::ScalarType type;
  std::vector<char> bytes;

  template <typename T>
  static Array of(at::ScalarType type, const std::vector<T>& values) {
    Array array{type, std::vector<char>(values.size() * sizeof(T))};
    if (!values.empty()) std::memcpy(array.bytes.data(), values.data(), array.bytes.size());
    return array;
  }
  template <typename T>
  std::vector<T> as() const {
    std::vector<T> values(bytes.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
};

enum class Edge : uint8_t {
  kFront,
  kBack
};  // which end of an operand's memory an inaccessible page touches

struct Layout {
  std::vector<Access> access;  // per operand, outputs first; empty: all contiguous
  int64_t stride = 3;          // of kStrided operands, in elements; may be negative
  int64_t rows = 1;  // size1; the arrays hold rows * size0 elements, a broadcast one `rows`
  Edge edge = Edge::kBack;
  int in_place = -1;  // the input whose memory output 0 takes, or -1
  bool fast_math = false;
};

// The instruction sets that this CPU has, of those we compile for.
std::vector<Target> targets();
std::string name_of(Target target);

// Ends the test program where it does not compile.
std::shared_ptr<const CompiledKernel> compile_for_test(const ScalarProgram& program, Target target,
                                                       const Layout& layout = {});

// The outputs. `size0`: elements in a row. Fails the test where memory between strided elements was
// written to.
std::vector<Array> run(const CompiledKernel& kernel, const ScalarProgram& program,
                       const std::vector<Array>& inputs, int64_t size0, const Layout& layout = {});
// Compiles and runs.
std::vector<Array> run(const ScalarProgram& program, const std::vector<Array>& inputs,
                       int64_t size0, Target target, const Layout& layout = {});

}  // namespace scramjet::codegen::cpu
