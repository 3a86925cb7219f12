#pragma once

// The passes in order, and the one runner they all go through.

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "passes/pass.h"

namespace scramjet::passes {

// What the runner tells after each pass.
struct StageResult {
  std::string pass;
  bool changed;
  double milliseconds;
  const torch::jit::Graph& graph;
};

struct PipelineOptions {
  std::vector<std::string> skip;  // names of passes to leave out
  int64_t rewrite_budget = std::numeric_limits<int64_t>::max();
  std::function<void(const StageResult&)> on_stage;  // dumps and timing; may be empty
  std::optional<AutocastSettings> autocast = std::nullopt;
};

// The default pipeline.
const std::vector<Pass>& pipeline();

// Runs the pipeline on `graph`, in place, and lints the graph after each pass that changed it.
// Throws c10::ValueError for a name in `skip` that no pass has.
Report run_pipeline(const std::shared_ptr<torch::jit::Graph>& graph,
                    const PipelineOptions& options = {});

}  // namespace scramjet::passes
