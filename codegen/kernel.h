#pragma once

// Kernel: a fused group of pointwise ATen ops as a DAG, with a readable text form.
//
//   kernel v1 relu_mul(2) {
//     %2 = aten::relu(%0)
//     %3 = aten::mul.Tensor(%2, %1)
//     return %3
//   }
//
// %0 .. %(inputs-1) are the tensors passed in; each line is one row of the op table
// (pointwise_ops.h) with every argument of its schema in order: a value, or a constant (2, 0.5,
// true, none, "tanh", inf). A dtype is an int, as in TorchScript. The text is what a saved .pt
// carries, so parse() trusts nothing: unknown ops, wrong arguments, forward references and excess
// size are errors that name the line.

#include <ATen/core/ivalue.h>

#include <cstdint>
#include <string>
#include <vector>

namespace scramjet::codegen {

struct PointwiseOp;

// One argument of a node: a tensor value, or a constant where `value` is negative.
struct Argument {
  int32_t value = -1;
  c10::IValue constant;

  bool is_value() const { return value >= 0; }
};

struct Node {
  const PointwiseOp* op;
  std::vector<Argument> arguments;  // one per argument of the op's schema
};

class Kernel {
 public:
  // Limits on text from strangers.
  static constexpr size_t kMaxInputs = 64;
  static constexpr size_t kMaxNodes = 4096;

  // Throws c10::ValueError "scramjet kernel, line N: reason" on anything that is not a valid
  // kernel.
  static Kernel parse(const std::string& text);
  std::string text() const;

  std::string name;  // letters, digits and _, for profiles: "relu_mul_50"
  int32_t num_inputs = 0;
  std::vector<Node> nodes;       // node k defines value num_inputs + k and uses earlier values only
  std::vector<int32_t> outputs;  // at least one; each the value of a node
};

// A name that says what a kernel holds: op names in order, runs counted ("relu_mul_50"), cut at 60
// letters.
std::string describe(const std::vector<Node>& nodes);

}  // namespace scramjet::codegen
