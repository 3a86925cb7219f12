#pragma once

// lower-autocast: `with torch.autocast(...)` inside a script becomes switching the real autocast
// state.
//
//   %r = prim::Enter(%autocast)     →     %saved : int[] = scramjet::enter_autocast(%device,
//   %dtype, %enabled) %q = prim::Exit(%autocast)      →     scramjet::exit_autocast(%saved)
//
// torch's executor handles such regions by a pass of its own that casts by the CUDA lists on every
// device, so that on CPU exp, layer_norm, sum and pow differ from eager. With the real state on,
// each op dispatches as in eager. Other context managers are left alone.

#include "passes/pass.h"

namespace scramjet::passes {

bool lower_autocast(PassContext& context);

}  // namespace scramjet::passes
