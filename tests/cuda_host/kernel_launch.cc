#include "tests/cuda_host/kernel_launch.h"

#include <map>

namespace scramjet::cuda_host {
namespace {

std::map<const void*, size_t>& limits() {
  static std::map<const void*, size_t> limits;
  return limits;
}

}  // namespace

size_t dynamic_shared_limit(const void* kernel) {
  const auto found = limits().find(kernel);
  return found == limits().end() ? LaunchShape::kUsualDynamicShared : found->second;
}

cudaError_t set_attribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  constexpr int kLimitOfTheDevice = 227 << 10;
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  if (value < 0 || value > kLimitOfTheDevice) return cudaErrorInvalidValue;
  limits()[kernel] = static_cast<size_t>(value);
  return cudaSuccess;
}

}  // namespace scramjet::cuda_host
