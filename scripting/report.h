#pragma once

// The text of explain().

#include <string>

#include "passes/pass.h"
#include "runtime/kernel_object.h"

namespace scramjet {

// The part that is known at compile time; saved with the module.
std::string report_text(const passes::Report& report);

// What a kernel has become at run time so far: a line for each combination of dtypes.
std::string runtime_text(const runtime::KernelObject& kernel);

}  // namespace scramjet
