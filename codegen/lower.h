#pragma once

// Kernel + input dtypes → ScalarProgram: dtype inference and lowering of each node by its table
// row.

#include <optional>
#include <string>
#include <vector>

#include "codegen/kernel.h"
#include "codegen/scalar_program.h"

namespace scramjet::codegen {

// What type promotion needs to know of a tensor.
struct InputType {
  at::ScalarType dtype;
  bool zero_dim;

  bool operator==(const InputType&) const = default;
};

struct LowerOptions {
  // Half and bfloat16: round after each op, as eager does; otherwise once at each output.
  bool round_like_eager = true;
};

// The dtypes of one node: in which it computes, and which its result has.
struct NodeDtypes {
  at::ScalarType common, result;
};

// The program of `kernel` for inputs of these types, outputs in the kernel's order; `*dtypes` gets
// an element per node. nullopt where a node cannot be compiled for them, with the reason
// ("aten::neg on Bool") in `*reason`.
std::optional<ScalarProgram> lower(const Kernel& kernel, const std::vector<InputType>& inputs,
                                   const LowerOptions& options, std::vector<NodeDtypes>* dtypes,
                                   std::string* reason);

}  // namespace scramjet::codegen
