#pragma once

// What a pass is: a function from a graph to the same graph, changed or not, that enters every
// block.

#include <torch/csrc/jit/ir/ir.h>

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "amp/cast_policy.h"

namespace scramjet::passes {

// A fused group: what explain() tells of it.
struct FusedGroup {
  std::string name;                  // the kernel's
  std::vector<std::string> ops;      // "aten::mul.Tensor", in order
  std::vector<std::string> sources;  // "model.py:12", one for each distinct line
};

// An op that stays on its own.
struct OutsideOp {
  std::string op;
  std::string reason;
  std::string source;
  bool pointwise;  // could have been part of a group, but for the reason
};

struct Report {
  std::vector<FusedGroup> groups;
  std::vector<OutsideOp> outside;
};

// What the pass `autocast` writes into the graph.
struct AutocastSettings {
  c10::DeviceType device;
  at::ScalarType dtype;
  // By op ("aten::softmax.int"), in place of torch's lists; nullopt: never cast.
  std::map<std::string, std::optional<amp::CastPolicy>> overrides;
};

// Passed through a pipeline.
struct PassContext {
  std::shared_ptr<torch::jit::Graph> graph;
  Report report;
  // Rewrites still allowed, over all passes: to bisect a wrong answer to the one rewrite that
  // causes it.
  int64_t rewrite_budget = std::numeric_limits<int64_t>::max();
  std::optional<AutocastSettings> autocast = std::nullopt;

  // Every rewrite asks first; false: leave the graph as it is.
  bool take_rewrite() { return rewrite_budget > 0 && rewrite_budget-- > 0; }
};

struct Pass {
  const char* name;                   // stable, kebab-case
  bool (*run)(PassContext& context);  // true: it changed the graph
};

// Calls visit(node) for every node of the block and of the blocks inside it, in order.
template <class F>
void for_each_node(const torch::jit::Block* block, F&& visit) {
  for (torch::jit::Node* node : const_cast<torch::jit::Block*>(block)->nodes()) {
    visit(node);
    for (const torch::jit::Block* inner : node->blocks()) for_each_node(inner, visit);
  }
}

// "file.py:12" of a node, or an empty string.
std::string source_line(const torch::jit::Node* node);

}  // namespace scramjet::passes
