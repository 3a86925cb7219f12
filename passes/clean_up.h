#pragma once

// The clean-up that torch ships, each pass in the form that is free of the faults known of
// torch 2.15.

#include "passes/pass.h"

namespace scramjet::passes {

// inline: calls of functions and methods become their bodies.
bool inline_calls(PassContext& context);

// propagate-constants: evaluates what depends on constants only, for values that cannot be written
// to (numbers, strings, tuples of them). torch's full ConstantPropagation also makes tensors
// constants, and relies on AliasDb to know which are written; AliasDb misses values that a loop
// rotates (pytorch#75794), so tensors are left alone.
bool propagate_constants(PassContext& context);

// lower-tuples: a tuple that is made and taken apart again is not made. What nobody reads of it
// becomes dead code.
bool lower_tuples(PassContext& context);

// eliminate-dead-code: removes nodes without effect whose results nobody reads. torch's version
// without AliasDb: every write stays.
bool eliminate_dead_code(PassContext& context);

}  // namespace scramjet::passes
