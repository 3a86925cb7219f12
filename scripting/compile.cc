#include "scripting/compile.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "codegen/debug_dump.h"
#include "codegen/kernel.h"
#include "passes/fuse_pointwise.h"
#include "passes/pipeline.h"
#include "runtime/kernel_object.h"
#include "runtime/plan.h"
#include "scripting/attached_kernels.h"
#include "scripting/report.h"

namespace scramjet {
namespace {

using torch::jit::Graph;
using torch::jit::Module;
using torch::jit::Node;
using torch::jit::Value;

constexpr const char* kKernelAttribute = "_scramjet_kernel_";

void check_options(const CompileOptions& options) {
  TORCH_CHECK_VALUE(options.dynamic,
                    "scramjet::compile: option 'dynamic' = false is not available yet; one machine "
                    "code already serves every size, so leave it at true");
  TORCH_CHECK_VALUE(options.mode == "default", "scramjet::compile: option 'mode' = \"",
                    options.mode, "\" is not available yet; expected \"default\"");
  TORCH_CHECK_VALUE(!options.async,
                    "scramjet::compile: option 'async' is not available yet; expected false");
  TORCH_CHECK_VALUE(options.rewrite_budget >= 0,
                    "scramjet::compile: option 'rewrite_budget' must be 0 or more, got ",
                    options.rewrite_budget);
}

passes::AutocastSettings autocast_settings(const AutocastOptions& options) {
  TORCH_CHECK_VALUE(options.device == at::kCPU || options.device == at::kCUDA,
                    "scramjet::compile: option 'autocast': device must be CPU or CUDA, got ",
                    options.device);
  TORCH_CHECK_VALUE(options.dtype == at::kBFloat16 || options.dtype == at::kHalf,
                    "scramjet::compile: option 'autocast': dtype must be BFloat16 or Half, got ",
                    options.dtype);
  passes::AutocastSettings settings{options.device, options.dtype, {}};
  for (const auto& [op, policy] : options.overrides) {
    const size_t dot = std::min(op.find('.'), op.size());
    const c10::OperatorName name(op.substr(0, dot), op.substr(std::min(dot + 1, op.size())));
    TORCH_CHECK_VALUE(c10::Dispatcher::singleton().findSchema(name).has_value(),
                      "scramjet::compile: option 'autocast': overrides: torch has no op '", op,
                      "'; names have their overload, such as aten::softmax.int");
    std::optional<amp::CastPolicy>& made = settings.overrides[op];
    if (policy == "fp32") {
      made = amp::CastPolicy::fp32;
    } else if (policy == "lower_precision_fp") {
      made = amp::CastPolicy::lower_precision_fp;
    } else {
      TORCH_CHECK_VALUE(policy == "none", "scramjet::compile: option 'autocast': overrides: ", op,
                        " must be fp32, lower_precision_fp or none, got ", policy);
    }
  }
  return settings;
}

passes::PipelineOptions pipeline_options(const CompileOptions& options) {
  passes::PipelineOptions pipeline{options.skip_passes, options.rewrite_budget, {}};
  if (options.autocast) pipeline.autocast = autocast_settings(*options.autocast);
  if (codegen::debug_dumps_enabled()) {
    pipeline.on_stage = [](const passes::StageResult& stage) {
      std::ostringstream text;
      text << "# " << stage.pass << ": " << (stage.changed ? "changed" : "(unchanged)") << ", "
           << stage.milliseconds << " ms\n";
      if (stage.changed) text << stage.graph;
      codegen::debug_dump(stage.pass + ".graph", text.str());
    };
  }
  return pipeline;
}

void check_fullgraph(const passes::Report& report) {
  for (const passes::OutsideOp& op : report.outside) {
    const bool call = op.op.rfind("prim::", 0) == 0;
    TORCH_CHECK_VALUE(!op.pointwise && !call, "scramjet::compile: option 'fullgraph': ", op.op,
                      " at ", op.source.empty() ? "an unknown line" : op.source,
                      " stays outside: ", op.reason, "\n", report_text(report));
  }
}

// Each kernel becomes an attribute of the module, equal ones share; each run node reads its own.
void attach_kernels(Module& module, Graph& graph, const runtime::KernelOptions& options) {
  std::vector<Node*> runs;
  passes::for_each_node(graph.block(), [&](Node* node) {
    if (node->kind() == passes::run_kind()) runs.push_back(node);
  });
  std::map<std::string, Value*> kernels;
  Node* first = *graph.block()->nodes().begin();
  for (Node* run : runs) {
    const std::string text = run->s(passes::kernel_attribute());
    Value*& kernel = kernels[text];
    if (kernel == nullptr) {
      std::string name = kKernelAttribute + std::to_string(kernels.size() - 1);
      while (module.hasattr(name)) name += '_';
      auto object =
          c10::make_intrusive<runtime::KernelObject>(codegen::Kernel::parse(text), options);
      module.register_attribute(
          name, c10::getCustomClassType<c10::intrusive_ptr<runtime::KernelObject>>(),
          c10::IValue(object));
      object->compile_usual();
      Node* get = graph.createGetAttr(graph.inputs()[0], name)->insertBefore(first);
      kernel = get->output();
    }
    run->removeAttribute(passes::kernel_attribute());
    run->insertInput(0, kernel);
  }
}

// `function`, a method or hook of `from`, for the class `to`.
torch::jit::Function* move_to(const torch::jit::Function& function, const c10::ClassTypePtr& from,
                              const c10::ClassTypePtr& to) {
  const auto remap = [&](const c10::TypePtr& type) {
    return type == from ? c10::TypePtr(to) : type;
  };
  const std::shared_ptr<Graph> graph =
      torch::jit::toGraphFunction(const_cast<torch::jit::Function&>(function)).graph()->copy();
  graph->remapTypes(remap);
  auto* moved = to->compilation_unit()->create_function(
      c10::QualifiedName(*to->name(), function.name()), graph);
  moved->setSchema(function.getSchema().cloneWithRemappedTypes(remap));
  return moved;
}

// A module with a class of its own and the same contents: the same tensors, and the same
// submodules, which several attributes may share. (Module::clone would copy submodules, and split
// shared ones.)
Module with_own_type(const Module& module) {
  const auto original = module.type();
  const auto unit = module._ivalue()->compilation_unit();
  c10::QualifiedName name = *original->name();
  if (unit->get_class(name) != nullptr) name = unit->mangle(name);
  const auto type = c10::ClassType::create(name, unit, /*is_module=*/true);
  unit->register_type(type);
  Module copy(
      c10::ivalue::Object::create(c10::StrongTypePtr(unit, type), original->numAttributes()));
  for (size_t k = 0; k < original->numAttributes(); ++k) {
    type->addAttribute(original->getAttributeName(k), original->getAttribute(k),
                       original->is_parameter(k), original->is_buffer(k));
    copy._ivalue()->setSlot(k, module._ivalue()->getSlot(k));
  }
  for (size_t k = 0; k < original->numConstants(); ++k)
    type->addConstant(original->getConstantName(k), original->getConstant(k));
  for (const auto* method : original->methods()) {
    type->addMethod(move_to(*method, original, type));
  }
  for (const auto* hook : original->getForwardPreHooks()) {
    type->addForwardPreHook(move_to(*hook, original, type));
  }
  for (const auto* hook : original->getForwardHooks()) {
    type->addForwardHook(move_to(*hook, original, type));
  }
  return copy;
}

void add_method(const Module& module, const std::string& name,
                const std::shared_ptr<Graph>& graph) {
  const auto type = module.type();
  auto* function = module._ivalue()->compilation_unit()->create_function(
      c10::QualifiedName(*type->name(), name), graph);
  type->addMethod(function);
}

// forward(self, inputs...) = unchecked_cast(scramjet::call(self.plan, self, [inputs...]))
void forward_through_plan(Graph& graph) {
  const c10::TypePtr result = graph.outputs()[0]->type();
  graph.eraseOutput(0);
  for (auto node = graph.block()->nodes().rbegin(); node != graph.block()->nodes().rend();) {
    Node* dead = *node;
    ++node;
    dead->destroy();
  }
  const auto inputs = graph.inputs();
  Node* plan = graph.insertNode(graph.createGetAttr(inputs[0], runtime::kPlanAttribute));
  Node* list = graph.insertNode(graph.create(c10::prim::ListConstruct, inputs.slice(1)));
  list->output()->setType(c10::ListType::create(c10::AnyType::get()));
  Node* call = graph.insertNode(graph.create(c10::Symbol::fromQualString("scramjet::call"),
                                             {plan->output(), inputs[0], list->output()}));
  call->output()->setType(c10::AnyType::get());
  Value* output = result->kind() == c10::TypeKind::NoneType
                      ? graph.insertConstant(c10::IValue())
                      : graph.insertUncheckedCast(call->output(), result);
  graph.registerOutput(output);
}

std::string kernel_summaries(const Module& module) {
  std::string text;
  for (const auto& kernel : attached_kernels(module)) text += runtime_text(*kernel);
  return text;
}

}  // namespace

Module compile(const Module& module, const CompileOptions& options) {
  check_options(options);
  TORCH_CHECK_VALUE(module.find_method("forward").has_value(),
                    "scramjet::compile: argument 'module': ", module.type()->repr_str(),
                    " has no method forward");
  if (module.hasattr(runtime::kPlanAttribute)) return module;

  Module compiled = options.freeze ? torch::jit::freeze(module) : with_own_type(module);
  const auto forward =
      torch::jit::toGraphFunction(compiled.get_method("forward").function()).graph();
  const std::shared_ptr<Graph> graph = forward->copy();
  codegen::debug_dump("input.graph", graph->toString());

  const passes::Report report = passes::run_pipeline(graph, pipeline_options(options));
  if (options.fullgraph) check_fullgraph(report);
  const std::string text = report_text(report);
  attach_kernels(compiled, *graph, {options.fast_math, options.round_like_eager});
  compiled.register_attribute(runtime::kPlanAttribute,
                              c10::getCustomClassType<c10::intrusive_ptr<runtime::Plan>>(),
                              c10::IValue(c10::make_intrusive<runtime::Plan>(text)));
  graph->lint();
  add_method(compiled, runtime::kOptimisedMethod, graph);
  forward_through_plan(*forward);
  forward->lint();
  codegen::debug_dump("report.txt", text);
  return compiled;
}

std::string explain(const Module& compiled) {
  TORCH_CHECK_VALUE(compiled.hasattr(runtime::kPlanAttribute),
                    "scramjet::explain: argument 'compiled': ", compiled.type()->repr_str(),
                    " was not made by scramjet::compile");
  std::string text =
      compiled.attr(runtime::kPlanAttribute).toCustomClass<runtime::Plan>()->report();
  const std::string kernels = kernel_summaries(compiled);
  text += kernels.empty() ? "" : "machine code so far\n" + kernels;
  return text + std::to_string(compilations()) + " compilations in this process\n";
}

int64_t compilations() { return runtime::compilations(); }

}  // namespace scramjet
