#include "passes/pass.h"

namespace scramjet::passes {

std::string source_line(const torch::jit::Node* node) {
  auto range = node->sourceRange();
  // In a loaded file the range is of the archive's own code, which knows the line it was made from.
  if (range.source()) {
    if (const auto original = range.source()->findSourceRangeThatGenerated(range))
      range = *original;
  }
  if (const auto place = range.file_line_col()) {
    const auto& [file, line, column] = *place;
    return file.substr(file.find_last_of('/') + 1) + ':' + std::to_string(line);
  }
  return {};
}

}  // namespace scramjet::passes
