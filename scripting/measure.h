#pragma once

// Times two modules against each other, and says how far their answers differ.

#include <torch/csrc/jit/api/module.h>

#include <string>
#include <vector>

namespace scramjet {

struct Timing {
  std::string variant;
  double first_call_ms = 0;
  double second_call_ms = 0;
  double ms_min = 0;
  double ms_median = 0;
};

struct Variant {
  std::string name;
  torch::jit::Module module;
};

// Calls every variant `runs` times on the same inputs, in turn, so that noise meets all alike. The
// first calls come variant by variant. Gradients are off.
std::vector<Timing> measure(std::vector<Variant>& variants, const std::vector<c10::IValue>& inputs,
                            int runs);

// The largest difference between two answers, over all tensors and numbers in them; infinity where
// they are not of one kind, dtype and shape. NaN equals NaN.
double largest_difference(const c10::IValue& a, const c10::IValue& b);

}  // namespace scramjet
