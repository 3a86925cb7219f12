#pragma once

// compare-elements: a condition on one element of a tensor is read straight from memory.
//
//   %a = aten::select(%x, 0, 0)
//   %b = aten::select(%a, 0, 0)      →   %c : bool = scramjet::compare_element(%x, [0, 0], [0, 0],
//   "gt", 0.5) %g = aten::gt(%b, 0.5) %c = aten::Bool(%g)
//
// It leaves alone comparisons between two tensors, with a number that is not constant, whose tensor
// results are used elsewhere, or with a barrier (analysis/effects.h) on the way. It pays because
// `if x[0, 0] > 0.5` otherwise makes three tensors to look at one number.

#include "passes/pass.h"

namespace scramjet::passes {

bool compare_elements(PassContext& context);

}  // namespace scramjet::passes
