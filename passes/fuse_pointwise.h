#pragma once

// fuse-pointwise: joins pointwise ops that feed each other into one kernel.
//
//   %3 = aten::add(%1, %2, %one)            %k : Tensor[] = scramjet::run[kernel="kernel v1
//   add_tanh(2) {..}"](%list) %4 = aten::tanh(%3)               →     %4 = prim::ListUnpack(%k)
//
// In every block, also inside prim::If and prim::Loop. A group lies between two barriers
// (analysis/effects.h), so nothing moves across a write, a print, a raise or a random draw. It
// leaves alone: ops without a row in the op table, ops with an argument that is no constant, single
// ops (ATen is as fast), and a dtype cast whose result is used outside (aten::to may return its own
// input, a kernel never does). It pays because each op of a group otherwise reads and writes all
// its memory once.

#include "passes/pass.h"

namespace scramjet::passes {

// The string attribute of a scramjet::run node that holds its kernel's text until the kernel is
// attached.
c10::Symbol kernel_attribute();
c10::Symbol run_kind();  // scramjet::run

bool fuse_pointwise(PassContext& context);

}  // namespace scramjet::passes
