#include "passes/pipeline.h"

#include <algorithm>
#include <chrono>

#include "passes/autocast.h"
#include "passes/clean_up.h"
#include "passes/compare_elements.h"
#include "passes/fuse_pointwise.h"
#include "passes/lower_autocast.h"
#include "passes/output_memory.h"
#include "passes/share_attributes.h"

namespace scramjet::passes {
namespace {

void check_names(const std::vector<std::string>& skip) {
  for (const std::string& name : skip) {
    const bool known = std::any_of(pipeline().begin(), pipeline().end(),
                                   [&](const Pass& pass) { return name == pass.name; });
    if (known) continue;
    std::string names;
    for (const Pass& pass : pipeline()) names += std::string(names.empty() ? "" : ", ") + pass.name;
    TORCH_CHECK_VALUE(false, "skip: no pass is named '", name, "', the passes are ", names);
  }
}

}  // namespace

const std::vector<Pass>& pipeline() {
  static const std::vector<Pass> passes = {
      {"inline", inline_calls},
      {"lower-autocast", lower_autocast},
      {"propagate-constants", propagate_constants},
      {"lower-tuples", lower_tuples},
      {"share-attributes", share_attributes},
      {"autocast", autocast},
      {"eliminate-dead-code", eliminate_dead_code},
      {"compare-elements", compare_elements},
      {"fuse-pointwise", fuse_pointwise},
      {"output-memory", output_memory},
  };
  return passes;
}

Report run_pipeline(const std::shared_ptr<torch::jit::Graph>& graph,
                    const PipelineOptions& options) {
  check_names(options.skip);
  PassContext context{graph, {}, options.rewrite_budget, options.autocast};
  for (const Pass& pass : pipeline()) {
    if (std::find(options.skip.begin(), options.skip.end(), pass.name) != options.skip.end())
      continue;
    const auto start = std::chrono::steady_clock::now();
    const bool changed = pass.run(context);
    if (changed) graph->lint();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    if (options.on_stage) options.on_stage({pass.name, changed, took.count(), *graph});
  }
  return std::move(context.report);
}

}  // namespace scramjet::passes
