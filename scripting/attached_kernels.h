#pragma once

// The kernels that a compiled module carries.

#include <torch/csrc/jit/api/module.h>

#include <vector>

#include "runtime/kernel_object.h"

namespace scramjet {

// In the order of the module's attributes. Found by their type: an attribute's name is anybody's.
std::vector<c10::intrusive_ptr<runtime::KernelObject>> attached_kernels(
    const torch::jit::Module& module);

}  // namespace scramjet
