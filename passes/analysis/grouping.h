#pragma once

// Divides straight-line nodes into groups that can each run as one node.

#include <torch/csrc/jit/ir/ir.h>

#include <cstddef>
#include <functional>
#include <vector>

namespace scramjet::passes {

struct Grouping {
  // Every node of the segment in an order that is valid once groups are contiguous.
  std::vector<torch::jit::Node*> order;
  // Nodes per group, in order; groups of one node are not listed.
  std::vector<std::vector<torch::jit::Node*>> groups;
};

// `segment`: consecutive nodes of one block without a barrier among them. Two candidates join a
// group where one feeds the other and no path leads out of the group and back in. `max_values`
// bounds the values a group reads.
Grouping group_candidates(const std::vector<torch::jit::Node*>& segment,
                          const std::function<bool(const torch::jit::Node*)>& is_candidate,
                          size_t max_values, size_t max_nodes);

}  // namespace scramjet::passes
