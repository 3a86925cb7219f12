#pragma once

// output-memory: a matrix product whose result a fused group reads goes into output memory.
//
//   %h = aten::linear(%x, %w, %b)         →   %h = scramjet::linear(%x, %w, %b)
//   %l = prim::ListConstruct(%h, …)           %l = prim::ListConstruct(%h, …)
//   %y = scramjet::run[kernel=…](%l)          %y = scramjet::run[kernel=…](%l)
//
// It leaves alone products that no group reads. It pays for results of some MB: ATen takes fresh
// pages for each, which cost about as much as computing the group, and the group writes its own
// result over them. A smaller one runs as before.

#include "passes/pass.h"

namespace scramjet::passes {

bool output_memory(PassContext& context);

}  // namespace scramjet::passes
