#pragma once

// autocast: mixed precision written into the graph, where CompileOptions::autocast asks for it.
//
//                                        %off = scramjet::enter_autocast(device, dtype, False)
//   %h = aten::linear(%x, %w, %b)   →    %1 = scramjet::autocast_to(%x, device, bfloat16)
//                                        … the same for %w and %b
//   %y = aten::cumsum(%h, …)             %h = aten::linear(%1, %2, %3)
//                                        %4 = scramjet::autocast_to(%h, device, float32)
//                                        %y = aten::cumsum(%4, …)
//                                        scramjet::exit_autocast(%off)
//
// The answers are those of the original under torch.autocast. An op on torch's lists
// (amp/cast_policy.h) gets its casts; the op table's rows and views need none; whatever else there
// is, and may call an op of the lists inside, runs in a region with autocast on. Regions that the
// graph has of its own stay as they are.
//
// It pays since a weight's cast is done once: at compile time where the module is frozen, outside
// of loops otherwise; since a value is cast once for all its readers; and since casts are pointwise
// ops, which fuse-pointwise takes into its groups.

#include "passes/pass.h"

namespace scramjet::passes {

bool autocast(PassContext& context);

}  // namespace scramjet::passes
