#include "codegen/cpu/math_functions.h"

#include <dlfcn.h>

namespace scramjet::codegen::cpu {
namespace {

struct Row {
  const char* name;
  const char* float_accuracy;  // the variant that ATen's Vectorized<float> calls
  const char* double_accuracy;
};

// In the order of enum Math.
constexpr Row kRows[] = {
    {"exp", "u10", "u10"},   {"exp2", "u10", "u10"},  {"expm1", "u10", "u10"},
    {"log", "u10", "u10"},   {"log2", "u10", "u10"},  {"log10", "u10", "u10"},
    {"log1p", "u10", "u10"}, {"sin", "u35", "u10"},   {"cos", "u35", "u10"},
    {"tan", "u10", "u10"},   {"asin", "u10", "u10"},  {"acos", "u10", "u10"},
    {"atan", "u10", "u10"},  {"sinh", "u10", "u10"},  {"cosh", "u10", "u10"},
    {"tanh", "u10", "u10"},  {"asinh", "u10", "u10"}, {"acosh", "u10", "u10"},
    {"atanh", "u10", "u10"}, {"erf", "u10", "u10"},   {"erfc", "u15", "u15"},
    {"pow", "u10", "u10"},   {"atan2", "u10", "u10"}, {"hypot", "u05", "u05"},
};

std::string library_name(const char* name, bool is_double) {
  return std::string(name) + (is_double ? "" : "f");
}

std::string type_suffix(bool is_double, int lanes) {
  return (is_double ? "d" : "f") + std::to_string(lanes);
}

}  // namespace

std::string math_symbol(Math math, bool is_double, int lanes) {
  const Row& row = kRows[static_cast<int>(math)];
  if (lanes == 1) return library_name(row.name, is_double);
  return std::string("Sleef_") + row.name + type_suffix(is_double, lanes) + '_' +
         (is_double ? row.double_accuracy : row.float_accuracy);
}

std::string remainder_symbol(bool is_double, int lanes) {
  if (lanes == 1) return library_name("fmod", is_double);
  return "Sleef_fmod" + type_suffix(is_double, lanes);
}

bool needs_double(Math math) {
  return math == Math::kSinh || math == Math::kCosh || math == Math::kAsinh || math == Math::kAcosh;
}

bool overflows_early(Math math) { return math == Math::kAsinh || math == Math::kAcosh; }

uint64_t find_symbol(const std::string& name) {
  // Python loads libtorch_cpu without RTLD_GLOBAL: ask the library itself, then the process.
  static void* const torch = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  void* address = torch != nullptr ? dlsym(torch, name.c_str()) : nullptr;
  if (address == nullptr) address = dlsym(RTLD_DEFAULT, name.c_str());
  return reinterpret_cast<uint64_t>(address);
}

}  // namespace scramjet::codegen::cpu
