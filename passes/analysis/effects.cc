#include "passes/analysis/effects.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>
#include <unordered_set>

namespace scramjet::passes {
namespace {

using torch::jit::Node;

// Nodes without an operator schema that neither write nor have an effect.
bool is_pure_prim(const Node* node) {
  static const std::unordered_set<c10::Symbol> kPure = {
      c10::prim::Constant,       c10::prim::GetAttr,        c10::prim::ListConstruct,
      c10::prim::ListUnpack,     c10::prim::TupleConstruct, c10::prim::TupleUnpack,
      c10::prim::TupleIndex,     c10::prim::TupleSlice,     c10::prim::DictConstruct,
      c10::prim::unchecked_cast, c10::prim::Uninitialized,  c10::prim::isinstance,
  };
  return kPure.count(node->kind()) != 0;
}

// aten::dropout draws numbers only where `train` is true.
bool is_inference_dropout(const Node* node) {
  return node->kind() == c10::aten::dropout && node->inputs().size() == 3 &&
         torch::jit::constant_as<bool>(node->input(2)) == false;
}

bool block_has_barrier(const torch::jit::Block* block) {
  return std::any_of(block->nodes().begin(), block->nodes().end(), is_barrier);
}

}  // namespace

bool is_barrier(const Node* node) {
  if (node->kind() == c10::prim::If || node->kind() == c10::prim::Loop) {
    return std::any_of(node->blocks().begin(), node->blocks().end(), block_has_barrier);
  }
  if (is_pure_prim(node) || is_inference_dropout(node)) return false;
  const torch::jit::Operator* op = node->maybeOperator();
  if (op == nullptr || !node->blocks().empty()) return true;
  if (op->aliasAnalysisKind() == c10::AliasAnalysisKind::CONSERVATIVE) return true;
  return op->schema().is_mutable() || node->hasSideEffects() || node->isNondeterministic() ||
         node->outputs().empty();
}

}  // namespace scramjet::passes
