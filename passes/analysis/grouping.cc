#include "passes/analysis/grouping.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <set>
#include <unordered_map>

namespace scramjet::passes {
namespace {

using torch::jit::Node;
using torch::jit::Value;

class Grouper {
 public:
  Grouper(const std::vector<Node*>& segment, const std::function<bool(const Node*)>& is_candidate,
          size_t max_values, size_t max_nodes)
      : segment_(segment),
        max_values_(max_values),
        max_nodes_(max_nodes),
        group_(segment.size()),
        members_(segment.size()) {
    for (size_t k = 0; k < segment.size(); ++k) index_[segment[k]] = k;
    users_.resize(segment.size());
    for (size_t k = 0; k < segment.size(); ++k) {
      candidate_.push_back(is_candidate(segment[k]));
      members_[k] = {k};
      for (const Value* output : segment[k]->outputs()) {
        for (const torch::jit::Use& use : output->uses()) add_user(k, use.user);
      }
    }
    std::iota(group_.begin(), group_.end(), size_t{0});
  }

  Grouping run() {
    for (size_t k = 0; k < segment_.size(); ++k) {
      if (!candidate_[k]) continue;
      for (const Value* input : segment_[k]->inputs()) {
        const auto producer = index_.find(input->node());
        if (producer != index_.end() && candidate_[producer->second])
          try_join(group_[producer->second], group_[k]);
      }
    }
    return sorted();
  }

 private:
  // The use may sit in a block nested in a node of the segment: that node is the user.
  void add_user(size_t k, Node* user) {
    while (user != nullptr) {
      const auto at = index_.find(user);
      if (at != index_.end()) {
        users_[k].insert(at->second);
        return;
      }
      user = user->owningBlock()->owningNode();
    }
  }

  void try_join(size_t a, size_t b) {
    if (a == b || members_[a].size() + members_[b].size() > max_nodes_) return;
    if (count_inputs(a, b) > max_values_ || count_outputs(a, b) > max_values_ ||
        leaves_and_returns(a, b))
      return;
    for (size_t member : members_[b]) group_[member] = a;
    members_[a].insert(members_[a].end(), members_[b].begin(), members_[b].end());
    members_[b].clear();
  }

  size_t count_inputs(size_t a, size_t b) const {
    std::set<const Value*> read;
    for (size_t group : {a, b}) {
      for (size_t member : members_[group]) {
        for (const Value* input : segment_[member]->inputs()) {
          const auto producer = index_.find(input->node());
          const bool inside = producer != index_.end() &&
                              (group_[producer->second] == a || group_[producer->second] == b);
          if (!inside && input->type()->isSubtypeOf(*c10::TensorType::get())) read.insert(input);
        }
      }
    }
    return read.size();
  }

  size_t count_outputs(size_t a, size_t b) const {
    size_t count = 0;
    for (size_t group : {a, b}) {
      for (size_t member : members_[group]) {
        const auto& uses = segment_[member]->output()->uses();
        count += std::any_of(uses.begin(), uses.end(), [&](const torch::jit::Use& use) {
          const auto user = index_.find(use.user);
          return user == index_.end() || (group_[user->second] != a && group_[user->second] != b);
        });
      }
    }
    return count;
  }

  // Is there a path from the union of the groups through another node (or group) back into it?
  bool leaves_and_returns(size_t a, size_t b) const {
    std::vector<bool> seen(segment_.size(), false);  // by group
    std::vector<size_t> work;
    const auto push_users = [&](size_t group, bool from_union) {
      for (size_t member : members_[group]) {
        for (size_t user : users_[member]) {
          const size_t next = group_[user];
          const bool in_union = next == a || next == b;
          if (in_union && !from_union) return true;
          if (!in_union && !seen[next]) {
            seen[next] = true;
            work.push_back(next);
          }
        }
      }
      return false;
    };
    push_users(a, true);
    push_users(b, true);
    while (!work.empty()) {
      const size_t group = work.back();
      work.pop_back();
      if (push_users(group, false)) return true;
    }
    return false;
  }

  // Topological order of the groups, otherwise as written.
  Grouping sorted() {
    std::vector<std::set<size_t>> successors(segment_.size());
    std::vector<size_t> waits(segment_.size(), 0);
    for (size_t k = 0; k < segment_.size(); ++k) {
      for (size_t user : users_[k]) {
        if (group_[user] != group_[k] && successors[group_[k]].insert(group_[user]).second)
          ++waits[group_[user]];
      }
    }
    // A group's place is that of its first member.
    const auto later = [&](size_t x, size_t y) { return first(x) > first(y); };
    std::priority_queue<size_t, std::vector<size_t>, decltype(later)> ready(later);
    for (size_t k = 0; k < segment_.size(); ++k) {
      if (!members_[k].empty() && waits[k] == 0) ready.push(k);
    }
    Grouping grouping;
    while (!ready.empty()) {
      const size_t group = ready.top();
      ready.pop();
      std::sort(members_[group].begin(), members_[group].end());
      std::vector<Node*> nodes;
      for (size_t member : members_[group]) nodes.push_back(segment_[member]);
      grouping.order.insert(grouping.order.end(), nodes.begin(), nodes.end());
      if (nodes.size() > 1) grouping.groups.push_back(std::move(nodes));
      for (size_t next : successors[group]) {
        if (--waits[next] == 0) ready.push(next);
      }
    }
    TORCH_INTERNAL_ASSERT(grouping.order.size() == segment_.size(),
                          "a group of pointwise ops depends on itself");
    return grouping;
  }

  size_t first(size_t group) const {
    return *std::min_element(members_[group].begin(), members_[group].end());
  }

  const std::vector<Node*>& segment_;
  const size_t max_values_, max_nodes_;
  std::unordered_map<const Node*, size_t> index_;
  std::vector<bool> candidate_;
  std::vector<std::set<size_t>> users_;       // by node: nodes of the segment that read it
  std::vector<size_t> group_;                 // by node
  std::vector<std::vector<size_t>> members_;  // by group; empty once joined to another
};

}  // namespace

Grouping group_candidates(const std::vector<Node*>& segment,
                          const std::function<bool(const Node*)>& is_candidate, size_t max_values,
                          size_t max_nodes) {
  return Grouper(segment, is_candidate, max_values, max_nodes).run();
}

}  // namespace scramjet::passes
