#pragma once

// Which graphs may run below torch's autograd dispatch keys while gradients are off.

#include <torch/csrc/jit/ir/ir.h>

namespace scramjet::runtime {

// With gradients off, autograd's kernels still stand before every op: they look at each input, keep
// the version counters that writes advance, and note of each view what it is a view of. Skipping
// them saves a tenth of a graph of small ops. Nobody can see the difference where
//  - no op asks for gradients, and each op is known (torch's or Scramjet's),
//  - what is written to was made by this very call,
//  - what leaves the call (results, attributes set) is not a view of what was there before, and no
//    two of them share memory.
// True where the graph is such. A custom op may have no kernel but autograd's.
bool can_bypass_autograd(const torch::jit::Graph& graph);

}  // namespace scramjet::runtime
