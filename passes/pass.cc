#include "passes/pass.h"

namespace scramjet::passes {

std::string source_line(const torch::jit::Node* node) {
  const auto range = node->sourceRange();
  if (const auto place = range.file_line_col()) {
    const auto& [file, line, column] = *place;
    return file.substr(file.find_last_of('/') + 1) + ':' + std::to_string(line);
  }
  return {};
}

}  // namespace scramjet::passes
