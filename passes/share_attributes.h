#pragma once

// share-attributes: an attribute that is read twice is read once.
//
//   %a = prim::GetAttr[name="weight"](%self)       %a = prim::GetAttr[name="weight"](%self)
//   %y = aten::mm(%x, %a)                      →   %y = aten::mm(%x, %a)
//   %b = prim::GetAttr[name="weight"](%self)       %z = aten::mm(%y, %a)
//   %z = aten::mm(%y, %b)
//
// It leaves alone attributes of a name that the graph sets anywhere, and graphs that call what
// cannot be looked into. It pays in inlined modules, whose every use walks down from %self: a read
// costs an instruction, two reference counts and a register.

#include "passes/pass.h"

namespace scramjet::passes {

bool share_attributes(PassContext& context);

}  // namespace scramjet::passes
