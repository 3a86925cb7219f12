#include "runtime/autograd_bypass.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace scramjet::runtime {
namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;

bool is_known(const Node* node) {
  static const std::unordered_set<c10::Symbol> gradients = {
      c10::Symbol::aten("set_grad_enabled"), c10::Symbol::aten("requires_grad_"),
      c10::Symbol::aten("backward"),         c10::Symbol::aten("grad"),
      c10::Symbol::aten("retain_grad"),      c10::Symbol::aten("set_data"),
  };
  static const std::unordered_set<c10::Symbol> unseen = {
      c10::prim::Enter, c10::prim::Exit, c10::prim::CallMethod, c10::prim::CallFunction,
      c10::prim::PythonOp};
  static const c10::Symbol own = c10::Symbol::fromQualString("namespaces::scramjet");
  const c10::Symbol kind = node->kind();
  if (gradients.count(kind) != 0 || unseen.count(kind) != 0) return false;
  if (node->hasAttribute(c10::attr::Subgraph)) return false;
  return kind.is_aten() || kind.is_prim() || kind.ns() == own;
}

bool holds_tensors(const c10::TypePtr& type) {
  static const std::unordered_set<c10::TypeKind> numbers = {
      c10::TypeKind::IntType,    c10::TypeKind::FloatType,     c10::TypeKind::BoolType,
      c10::TypeKind::StringType, c10::TypeKind::NoneType,      c10::TypeKind::DeviceObjType,
      c10::TypeKind::NumberType, c10::TypeKind::GeneratorType, c10::TypeKind::ComplexType};
  if (numbers.count(type->kind()) != 0) return false;
  const auto contained = type->containedTypes();
  return contained.empty() || std::any_of(contained.begin(), contained.end(), holds_tensors);
}

// An op without alias annotations returns new memory, unless it is written in terms of other ops
// (then it may return what one of them did: einsum a view, dropout its input) and not one of these.
bool makes_new_memory(const Node* node) {
  static const std::unordered_set<std::string> composite = {"aten::conv1d",
                                                            "aten::conv2d",
                                                            "aten::conv3d",
                                                            "aten::conv_transpose1d",
                                                            "aten::conv_transpose2d",
                                                            "aten::conv_transpose3d",
                                                            "aten::linear",
                                                            "aten::matmul",
                                                            "aten::layer_norm",
                                                            "aten::batch_norm",
                                                            "aten::group_norm",
                                                            "aten::lstm",
                                                            "aten::gru",
                                                            "aten::lstm_cell",
                                                            "aten::gru_cell",
                                                            "aten::softmax",
                                                            "aten::log_softmax",
                                                            "aten::pad",
                                                            "aten::max_pool1d",
                                                            "aten::max_pool2d",
                                                            "aten::max_pool3d",
                                                            "aten::adaptive_avg_pool1d",
                                                            "aten::adaptive_avg_pool2d",
                                                            "aten::upsample_nearest1d",
                                                            "aten::upsample_nearest2d",
                                                            "aten::upsample_bilinear2d",
                                                            "aten::scaled_dot_product_attention"};
  const c10::FunctionSchema* schema = node->maybeSchema();
  if (schema == nullptr) return false;
  const auto& returns = schema->returns();
  if (std::any_of(returns.begin(), returns.end(),
                  [](const c10::Argument& result) { return result.alias_info() != nullptr; }))
    return false;
  const auto op = c10::Dispatcher::singleton().findOp(schema->operator_name());
  if (!op) return node->kind().ns() == c10::Symbol::fromQualString("namespaces::scramjet");
  return composite.count(schema->name()) != 0 ||
         !op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
}

// %a, %b = prim::ListUnpack(scramjet::run(...)): each its own memory.
bool is_fused_result(const Node* node) {
  static const c10::Symbol run = c10::Symbol::fromQualString("scramjet::run");
  return node->kind() == c10::prim::ListUnpack && node->input()->node()->kind() == run;
}

// Where the tensors of a value come from.
struct Origin {
  std::vector<const Value*> made;  // results of ops of this graph; twice: as it is, and as a view
  bool outside = false;            // an input, attribute or constant
  bool view = false;               // of an outside one: not the thing itself
};

class Origins {
 public:
  Origin of(const Value* value) {
    Origin origin;
    Seen seen;
    collect(value, /*through_view=*/false, seen, origin);
    return origin;
  }

 private:
  using Seen = std::set<std::pair<const Value*, bool>>;  // the arguments of collect()

  // Walks up from `value`; `seen` ends the walk around a loop.
  void collect(const Value* value, bool through_view, Seen& seen, Origin& origin) {
    if (!holds_tensors(value->type()) || !seen.insert({value, through_view}).second) return;
    const Node* node = value->node();
    if (node->kind() == c10::prim::Param)
      return collect_parameter(value, through_view, seen, origin);
    if (node->kind() == c10::prim::If || node->kind() == c10::prim::Loop) {
      const size_t first = node->kind() == c10::prim::Loop ? 1 : 0;  // a loop body's condition
      for (const Block* block : node->blocks())
        collect(block->outputs()[value->offset() + first], through_view, seen, origin);
      if (first == 1) collect(node->inputs()[value->offset() + 2], through_view, seen, origin);
    } else if (node->kind() == c10::prim::GetAttr || node->kind() == c10::prim::Constant) {
      outside(through_view, origin);
    } else if (makes_new_memory(node) || is_fused_result(node)) {
      origin.made.push_back(value);
    } else {
      const bool view = through_view || !node->kind().is_prim();
      for (const Value* input : node->inputs()) collect(input, view, seen, origin);
      if (node->inputs().empty()) origin.made.push_back(value);
    }
  }

  void collect_parameter(const Value* value, bool through_view, Seen& seen, Origin& origin) {
    const Node* owner = value->node()->owningBlock()->owningNode();
    if (owner == nullptr) return outside(through_view, origin);
    // A loop's carried value: what goes in, or what the last turn left.
    collect(owner->inputs()[value->offset() + 1], through_view, seen, origin);
    collect(owner->blocks()[0]->outputs()[value->offset()], through_view, seen, origin);
  }

  static void outside(bool through_view, Origin& origin) {
    origin.outside = true;
    origin.view |= through_view;
  }
};

class Check {
 public:
  bool block(const Block* block) {
    for (const Node* node : block->nodes()) {
      if (!is_known(node) || !writes_are_ours(node)) return false;
      if (node->kind() == c10::prim::SetAttr && !may_leave(node->inputs()[1])) return false;
      for (const Block* inner : node->blocks()) {
        if (!this->block(inner)) return false;
      }
    }
    return true;
  }

  bool may_leave(const Value* value) {
    if (!holds_tensors(value->type())) return true;
    const Origin origin = origins_.of(value);
    if (origin.view) return false;
    return std::all_of(origin.made.begin(), origin.made.end(),
                       [&](const Value* made) { return left_.insert(made).second; });
  }

 private:
  bool writes_are_ours(const Node* node) {
    const c10::FunctionSchema* schema = node->maybeSchema();
    if (schema == nullptr) return true;  // prim::If and its kin; SetAttr is looked at apart
    for (size_t k = 0; k < schema->arguments().size() && k < node->inputs().size(); ++k) {
      const c10::AliasInfo* alias = schema->arguments()[k].alias_info();
      if (alias == nullptr || !alias->isWrite()) continue;
      // A list or dictionary takes what is put in with it wherever it goes.
      if (!node->inputs()[k]->type()->isSubtypeOf(*c10::TensorType::get())) return false;
      if (origins_.of(node->inputs()[k]).outside) return false;
    }
    return true;
  }

  Origins origins_;
  std::unordered_set<const Value*> left_;  // results that leave the call
};

}  // namespace

bool can_bypass_autograd(const torch::jit::Graph& graph) {
  Check check;
  return check.block(graph.block()) &&
         std::all_of(graph.outputs().begin(), graph.outputs().end(),
                     [&](const Value* output) { return check.may_leave(output); });
}

}  // namespace scramjet::runtime
