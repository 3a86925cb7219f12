#pragma once

// The stages of a compiled module as text, for people.

#include <torch/csrc/jit/api/module.h>

#include <string>

namespace scramjet {

// stage: "graph" (the optimised graph), "kernel" (the fused groups), "llvm" or "asm" (their machine
// code for the dtypes and layouts they have run with). Throws c10::ValueError for a module that was
// not compiled.
std::string dump_stage(const torch::jit::Module& compiled, const std::string& stage);

}  // namespace scramjet
