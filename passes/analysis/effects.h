#pragma once

// Which nodes other work must not be moved across.

#include <torch/csrc/jit/ir/ir.h>

namespace scramjet::passes {

// Does the node, or anything in its blocks, write to memory, print, raise, draw random numbers, or
// do something unknown? Between two such nodes all work may be reordered freely as long as values
// are defined before use.
//
// This looks at operators only, never at which values may alias: torch's AliasDb misses that values
// which a loop rotates alias each other (pytorch#75794), and a write that is a wall for everything
// cannot be misjudged.
bool is_barrier(const torch::jit::Node* node);

}  // namespace scramjet::passes
