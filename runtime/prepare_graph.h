#pragma once

// The last changes to an optimised graph before torch's interpreter runs it. They are made each
// time a module is loaded, since text, which is how TorchScript saves graphs, cannot hold them.

#include <torch/csrc/jit/ir/ir.h>

namespace scramjet::runtime {

// Keeps loops and branches where they stand in the order of execution, and makes lists of constants
// once instead of at each call.
void prepare_graph(torch::jit::Graph& graph);

}  // namespace scramjet::runtime
