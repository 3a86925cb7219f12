#include "codegen/debug_dump.h"

#include <c10/util/Exception.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>

namespace scramjet::codegen {
namespace {

const std::string& folder() {
  static const std::string path = [] {
    const char* set = std::getenv("SCRAMJET_DEBUG");
    const std::string_view value = set == nullptr ? "" : set;
    if (value.empty() || value == "0") return std::string();
    return value == "1" ? std::string("scramjet_debug") : std::string(value);
  }();
  return path;
}

}  // namespace

bool debug_dumps_enabled() { return !folder().empty(); }

void debug_dump(const std::string& stage, const std::string& text) {
  if (!debug_dumps_enabled()) return;
  static std::atomic<int> count{0};
  char number[16];
  std::snprintf(number, sizeof(number), "%03d_", count++);
  std::error_code error;
  std::filesystem::create_directories(folder(), error);
  std::ofstream file(std::filesystem::path(folder()) / (number + stage));
  file << text;
  if (!file) {
    TORCH_WARN_ONCE("scramjet: SCRAMJET_DEBUG: cannot write to the folder '", folder(), "'");
  }
}

}  // namespace scramjet::codegen
