#include "passes/autocast.h"

#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "amp/autocast_to.h"
#include "amp/cast_policy.h"
#include "codegen/pointwise_ops.h"
#include "passes/analysis/effects.h"

namespace scramjet::passes {
namespace {

using amp::CastPolicy;
using torch::jit::Block;
using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;

c10::Symbol symbol(const char* op) {
  return c10::Symbol::fromQualString(std::string("scramjet::") + op);
}

bool is_kind(const Node* node, const char* op) { return node->kind() == symbol(op); }

bool holds_tensors(const Value* value) {
  const c10::TypePtr& type = value->type();
  if (type->isSubtypeOf(*c10::OptionalType::ofTensor())) return true;
  const auto list = type->cast<c10::ListType>();
  return list && list->getElementType()->isSubtypeOf(*c10::OptionalType::ofTensor());
}

// What becomes of a node.
enum class Treatment {
  kPlain,   // as it is: autocast on or off makes no difference
  kCast,    // its inputs are cast
  kRegion,  // runs with autocast on: torch decides inside
};

class Rewriter {
 public:
  Rewriter(PassContext& context, const AutocastSettings& settings)
      : context_(context), settings_(settings), graph_(*context.graph) {}

  bool run() {
    Block* block = graph_.block();
    const torch::jit::WithInsertPoint top(*block->nodes().begin());
    Value* saved = enter(false);
    block_in(block, {}, /*skip=*/saved->node());
    const torch::jit::WithInsertPoint bottom(block->return_node());
    leave(saved);
    return true;
  }

 private:
  using Casts = std::map<std::pair<const Value*, at::ScalarType>, Value*>;

  Value* enter(bool enabled) {
    Value* device =
        graph_.insertConstant(c10::DeviceTypeName(settings_.device, /*lower_case=*/true));
    Value* dtype = graph_.insertConstant(static_cast<int64_t>(settings_.dtype));
    Value* on = graph_.insertConstant(enabled);
    Node* node = graph_.insertNode(graph_.create(symbol("enter_autocast"), {device, dtype, on}));
    return node->output()->setType(c10::ListType::ofInts());
  }

  void leave(Value* saved) {
    graph_.insertNode(graph_.create(symbol("exit_autocast"), {saved}, 0));
  }

  // `casts`: what has been cast already and is still good; by value, for a branch's are its own.
  void block_in(Block* block, Casts casts, const Node* skip = nullptr) {
    int own_regions = 0;    // regions of the program's that are open
    Value* open = nullptr;  // our region with autocast on
    const std::vector<Node*> nodes(block->nodes().begin(), block->nodes().end());
    bool started = skip == nullptr;
    for (Node* node : nodes) {
      if (!started) {  // what run() put in front
        started = node == skip;
        continue;
      }
      const bool enters = is_kind(node, "enter_autocast"), leaves = is_kind(node, "exit_autocast");
      Treatment treatment = Treatment::kPlain;
      if (own_regions == 0 && !enters && !leaves) treatment = treatment_of(node);
      if (open != nullptr && treatment != Treatment::kRegion && !can_stay_inside(node)) {
        const torch::jit::WithInsertPoint before(node);
        leave(std::exchange(open, nullptr));
      }
      if (treatment == Treatment::kRegion && open == nullptr) {
        const torch::jit::WithInsertPoint before(node);
        open = enter(true);
      }
      if (treatment == Treatment::kCast) cast_inputs(node, casts);
      if (own_regions == 0) {
        // What a loop writes to, its next turn sees.
        const bool stale = node->kind() == c10::prim::Loop && is_barrier(node);
        for (Block* inner : node->blocks()) block_in(inner, stale ? Casts() : casts);
      }
      if (is_barrier(node)) casts.clear();
      own_regions += enters - leaves;
    }
    if (open != nullptr) {
      const torch::jit::WithInsertPoint end(block->return_node());
      leave(open);
    }
  }

  // Numbers, lists and the like between two ops of a region need not end it.
  static bool can_stay_inside(const Node* node) {
    return node->blocks().empty() && node->kind().is_prim() && node->kind() != c10::prim::Enter &&
           node->kind() != c10::prim::Exit;
  }

  std::optional<CastPolicy> policy_of(const c10::OperatorName& name) const {
    const auto given = settings_.overrides.find(c10::toString(name));
    if (given != settings_.overrides.end()) return given->second;
    return amp::cast_policy(settings_.device, name);
  }

  Treatment treatment_of(const Node* node) const {
    if (node->kind().is_prim()) {
      const bool call =
          node->kind() == c10::prim::CallMethod || node->kind() == c10::prim::CallFunction ||
          node->kind() == c10::prim::PythonOp || node->hasAttribute(c10::attr::Subgraph);
      return call ? Treatment::kRegion : Treatment::kPlain;
    }
    const c10::FunctionSchema* schema = node->maybeSchema();
    if (schema == nullptr) return Treatment::kRegion;
    const c10::OperatorName name = schema->operator_name();
    const auto given = settings_.overrides.find(c10::toString(name));
    if (given != settings_.overrides.end() && !given->second) return Treatment::kPlain;
    if (const auto policy = policy_of(name)) {
      const bool simple = *policy == CastPolicy::lower_precision_fp || *policy == CastPolicy::fp32;
      return simple && lists_are_known(node) ? Treatment::kCast : Treatment::kRegion;
    }
    if (codegen::find_pointwise_op(name) != nullptr) return Treatment::kPlain;
    if (name.name.find("autocast") != std::string::npos) return Treatment::kRegion;  // asks for it
    const auto outputs = node->outputs();
    const bool computes = std::any_of(outputs.begin(), outputs.end(), holds_tensors);
    return is_view(*schema) || (!computes && !schema->is_mutable()) ? Treatment::kPlain
                                                                    : Treatment::kRegion;
  }

  static bool lists_are_known(const Node* node) {
    return std::all_of(node->inputs().begin(), node->inputs().end(), [](const Value* input) {
      return input->type()->kind() != c10::TypeKind::ListType || !holds_tensors(input) ||
             input->node()->kind() == c10::prim::ListConstruct;
    });
  }

  // Its results share memory with its arguments, and it writes to nothing: views compute nothing.
  static bool is_view(const c10::FunctionSchema& schema) {
    if (schema.is_mutable() || schema.returns().empty()) return false;
    return std::all_of(schema.returns().begin(), schema.returns().end(),
                       [](const c10::Argument& result) { return result.alias_info() != nullptr; });
  }

  void cast_inputs(Node* node, Casts& casts) {
    if (!context_.take_rewrite()) return;
    const CastPolicy policy = *policy_of(node->schema().operator_name());
    const at::ScalarType dtype = policy == CastPolicy::fp32 ? at::kFloat : settings_.dtype;
    for (size_t k = 0; k < node->inputs().size(); ++k) {
      if (Value* made = cast(node->input(k), dtype, node, casts)) node->replaceInput(k, made);
    }
  }

  // `value` in `dtype`, for `reader`; nullptr where there is nothing to cast.
  Value* cast(Value* value, at::ScalarType dtype, Node* reader, Casts& casts) {
    if (!holds_tensors(value)) return nullptr;
    if (value->type()->kind() == c10::TypeKind::ListType)
      return cast_list(value, dtype, reader, casts);
    const auto constant = torch::jit::toIValue(value);
    if (constant && constant->isNone()) return nullptr;
    if (constant && constant->isTensor()) return cast_constant(constant->toTensor(), dtype);
    Value*& made = casts[{value, dtype}];
    if (made == nullptr) made = insert_cast(value, dtype, place_for(value, reader));
    return made;
  }

  // A frozen weight: once, for the whole graph.
  Value* cast_constant(const at::Tensor& constant, at::ScalarType dtype) {
    Value*& made = constants_[{constant.unsafeGetTensorImpl(), dtype}];
    if (made == nullptr) {
      const torch::jit::WithInsertPoint top(*graph_.block()->nodes().begin());
      made = graph_.insertConstant(amp::autocast_to(constant, settings_.device, dtype));
    }
    return made;
  }

  Value* insert_cast(Value* value, at::ScalarType dtype, Node* before) {
    const torch::jit::WithInsertPoint here(before);
    Value* device = graph_.insertConstant(static_cast<int64_t>(settings_.device));
    Value* type = graph_.insertConstant(static_cast<int64_t>(dtype));
    Node* made = graph_.insertNode(graph_.create(symbol("autocast_to"), {value, device, type}));
    made->setSourceRange(before->sourceRange());
    const bool optional = value->type()->kind() != c10::TypeKind::TensorType;
    return made->output()->setType(optional ? value->type() : c10::TensorType::get());
  }

  // In front of the reader, or of the outermost loop around it that leaves the value as it is.
  static Node* place_for(Value* value, Node* reader) {
    Node* place = reader;
    for (Node* outer = reader; outer != nullptr; outer = outer->owningBlock()->owningNode()) {
      if (outer->kind() != c10::prim::Loop) continue;
      if (is_barrier(outer) || !move_before(value, outer)) break;
      place = outer;
    }
    return place;
  }

  // True where `value` is defined before `loop`: an attribute that is read inside is moved there.
  static bool move_before(Value* value, Node* loop) {
    Node* node = value->node();
    if (node->isBefore(loop) && !is_inside(node, loop)) return true;
    if (node->kind() == c10::prim::Param) return !is_inside(node, loop);
    if (node->kind() != c10::prim::GetAttr || !move_before(node->input(), loop)) return false;
    node->moveBefore(loop);
    return true;
  }

  static bool is_inside(const Node* node, const Node* loop) {
    for (const Block* block = node->owningBlock(); block != nullptr;) {
      const Node* owner = block->owningNode();
      if (owner == loop) return true;
      block = owner == nullptr ? nullptr : owner->owningBlock();
    }
    return false;
  }

  Value* cast_list(Value* list, at::ScalarType dtype, Node* reader, Casts& casts) {
    std::vector<Value*> elements;
    for (Value* element : list->node()->inputs()) {
      Value* made = cast(element, dtype, reader, casts);
      elements.push_back(made != nullptr ? made : element);
    }
    const torch::jit::WithInsertPoint here(reader);
    Node* made = graph_.insertNode(
        graph_.createList(list->type()->expectRef<c10::ListType>().getElementType(), elements));
    return made->output();
  }

  PassContext& context_;
  const AutocastSettings& settings_;
  Graph& graph_;
  std::map<std::pair<const c10::TensorImpl*, at::ScalarType>, Value*> constants_;
};

}  // namespace

bool autocast(PassContext& context) {
  if (!context.autocast) return false;
  return Rewriter(context, *context.autocast).run();
}

}  // namespace scramjet::passes
