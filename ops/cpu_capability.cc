#include "ops/cpu_capability.h"

#include <ATen/Version.h>

#include <string>

namespace scramjet::ops {

CpuCapability cpu_capability() {
  static const CpuCapability capability = [] {
    const std::string name = at::get_cpu_capability();
    if (name == "AVX512") return CpuCapability::kAvx512;
    if (name == "AVX2") return CpuCapability::kAvx2;
    return CpuCapability::kDefault;
  }();
  return capability;
}

}  // namespace scramjet::ops
