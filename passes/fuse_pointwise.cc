#include "passes/fuse_pointwise.h"

#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "codegen/kernel.h"
#include "codegen/pointwise_ops.h"
#include "passes/analysis/effects.h"
#include "passes/analysis/grouping.h"
#include "passes/analysis/pointwise.h"

namespace scramjet::passes {
namespace {

using codegen::Kernel;
using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;

std::string op_name(const Node* node) {
  const c10::FunctionSchema* schema = node->maybeSchema();
  return schema != nullptr ? c10::toString(schema->operator_name()) : node->kind().toQualString();
}

// Builds the kernel of one group, and the node that runs it in the group's place.
class GroupRewriter {
 public:
  explicit GroupRewriter(const std::vector<Node*>& group)
      : group_(group), inside_(group.begin(), group.end()) {}

  FusedGroup rewrite() {
    collect_inputs();
    FusedGroup fused;
    for (Node* node : group_) add_node(node, fused);
    add_outputs();
    kernel_.name = codegen::describe(kernel_.nodes);
    fused.name = kernel_.name;
    insert_run();
    for (auto node = group_.rbegin(); node != group_.rend(); ++node) (*node)->destroy();
    return fused;
  }

 private:
  void collect_inputs() {
    for (const Node* node : group_) {
      for (const Value* input : node->inputs()) {
        if (inside_.count(input->node()) || !input->type()->isSubtypeOf(*c10::TensorType::get()))
          continue;
        if (ids_.try_emplace(input, static_cast<int32_t>(inputs_.size())).second)
          inputs_.push_back(const_cast<Value*>(input));
      }
    }
    kernel_.num_inputs = static_cast<int32_t>(inputs_.size());
  }

  void add_node(const Node* node, FusedGroup& fused) {
    std::string reason;
    codegen::Node made{pointwise_row(node, &reason), {}};
    for (const Value* input : node->inputs()) {
      const auto id = ids_.find(input);
      made.arguments.push_back(id != ids_.end()
                                   ? codegen::Argument{id->second, {}}
                                   : codegen::Argument{-1, *torch::jit::toIValue(input)});
    }
    ids_[node->output()] = kernel_.num_inputs + static_cast<int32_t>(kernel_.nodes.size());
    kernel_.nodes.push_back(std::move(made));
    fused.ops.push_back(op_name(node));
    const std::string line = source_line(node);
    if (!line.empty() &&
        std::find(fused.sources.begin(), fused.sources.end(), line) == fused.sources.end())
      fused.sources.push_back(line);
  }

  void add_outputs() {
    for (Node* node : group_) {
      const auto& uses = node->output()->uses();
      const bool leaves = std::any_of(uses.begin(), uses.end(), [&](const torch::jit::Use& use) {
        return !inside_.count(use.user);
      });
      if (!leaves) continue;
      outputs_.push_back(node->output());
      kernel_.outputs.push_back(ids_.at(node->output()));
    }
  }

  void insert_run() {
    torch::jit::Graph* graph = group_.front()->owningGraph();
    Node* list = graph->createList(c10::TensorType::get(), inputs_)->insertBefore(group_.front());
    Node* run = graph->create(run_kind(), {list->output()})->insertAfter(list);
    run->s_(kernel_attribute(), kernel_.text());
    run->output()->setType(c10::ListType::ofTensors());
    run->setSourceRange(group_.front()->sourceRange());
    Node* unpack = graph->createListUnpack(run->output(), outputs_.size())->insertAfter(run);
    for (size_t k = 0; k < outputs_.size(); ++k) {
      unpack->output(k)->copyMetadata(outputs_[k]);
      outputs_[k]->replaceAllUsesWith(unpack->output(k));
    }
  }

  const std::vector<Node*>& group_;
  std::unordered_set<const Node*> inside_;
  Kernel kernel_;
  std::vector<Value*> inputs_, outputs_;
  std::unordered_map<const Value*, int32_t> ids_;
};

class PointwiseFuser {
 public:
  explicit PointwiseFuser(PassContext& context) : context_(context) {}

  bool run() {
    visit(context_.graph->block());
    return changed_;
  }

 private:
  void visit(Block* block) {
    std::vector<Node*> segment;
    // The nodes are listed first: fusing changes the block.
    const std::vector<Node*> nodes(block->nodes().begin(), block->nodes().end());
    for (Node* node : nodes) {
      for (Block* inner : node->blocks()) visit(inner);
    }
    for (Node* node : nodes) {
      if (is_barrier(node)) {
        fuse(segment);
        segment.clear();
        report_outside(node, "a write or another effect");
      } else {
        segment.push_back(node);
      }
    }
    fuse(segment);
  }

  void fuse(const std::vector<Node*>& segment) {
    const std::unordered_set<const Node*> members(segment.begin(), segment.end());
    std::unordered_map<const Node*, std::string> reasons;
    std::unordered_set<const Node*> candidates;
    for (const Node* node : segment) {
      if (node->blocks().empty() && pointwise_row(node, &reasons[node]) != nullptr)
        candidates.insert(node);
    }
    drop_escaping_casts(segment, candidates, reasons);
    const Grouping grouping = group_candidates(
        segment, [&](const Node* node) { return candidates.count(node) != 0; },
        Kernel::kMaxInputs / 2, Kernel::kMaxNodes);
    std::unordered_set<const Node*> fused;
    for (const auto& group : grouping.groups) fused.insert(group.begin(), group.end());
    for (const Node* node : segment) {
      if (!fused.count(node))
        report_outside(node, reasons[node].empty() ? "nothing to fuse it with" : reasons[node]);
    }
    if (grouping.groups.empty()) return;
    reorder(segment, grouping.order);
    for (const auto& group : grouping.groups) {
      if (!context_.take_rewrite()) {
        for (const Node* node : group) report_outside(node, "the rewrite budget is spent");
        continue;
      }
      context_.report.groups.push_back(GroupRewriter(group).rewrite());
      changed_ = true;
    }
  }

  // aten::to returns its own input where the dtype is right already. Inside a group nobody sees
  // that; elsewhere a later write would.
  static void drop_escaping_casts(const std::vector<Node*>& segment,
                                  std::unordered_set<const Node*>& candidates,
                                  std::unordered_map<const Node*, std::string>& reasons) {
    for (auto at = segment.rbegin(); at != segment.rend(); ++at) {
      const Node* node = *at;
      if (node->kind() != c10::aten::to || !candidates.count(node)) continue;
      const auto& uses = node->output()->uses();
      if (std::all_of(uses.begin(), uses.end(),
                      [&](const torch::jit::Use& use) { return candidates.count(use.user) != 0; }))
        continue;
      candidates.erase(node);
      reasons[node] = "its result, maybe an alias of its input, is used outside";
    }
  }

  static void reorder(const std::vector<Node*>& segment, const std::vector<Node*>& order) {
    Node* end = segment.back()->next();
    for (Node* node : order) node->moveBefore(end);
  }

  void report_outside(const Node* node, const std::string& reason) {
    std::string ignored;
    const bool in_table = node->blocks().empty() && pointwise_row(node, &ignored) != nullptr;
    const bool pointwise = in_table || is_tagged_pointwise(node);
    if (node->kind().ns() == run_kind().ns()) return;  // Scramjet's own
    if (!node->kind().is_aten() && !node->kind().is_prim())
      return add_outside(node, reason, pointwise);
    const bool call = node->kind() == c10::prim::CallMethod ||
                      node->kind() == c10::prim::CallFunction ||
                      node->kind() == c10::prim::PythonOp || node->kind() == c10::prim::fork;
    const bool tensor = std::any_of(
        node->outputs().begin(), node->outputs().end(),
        [](const Value* value) { return value->type()->isSubtypeOf(*c10::TensorType::get()); });
    if (call || (node->kind().is_aten() && tensor))
      add_outside(node, pointwise || call ? reason : "not pointwise: runs in its library",
                  pointwise);
  }

  void add_outside(const Node* node, const std::string& reason, bool pointwise) {
    context_.report.outside.push_back({op_name(node), reason, source_line(node), pointwise});
  }

  PassContext& context_;
  bool changed_ = false;
};

}  // namespace

c10::Symbol kernel_attribute() {
  static const c10::Symbol symbol = c10::Symbol::attr("kernel");
  return symbol;
}

c10::Symbol run_kind() {
  static const c10::Symbol symbol = c10::Symbol::fromQualString("scramjet::run");
  return symbol;
}

bool fuse_pointwise(PassContext& context) { return PointwiseFuser(context).run(); }

}  // namespace scramjet::passes
