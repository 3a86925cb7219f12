#pragma once

#include <type_traits>

#include "tests/cuda_host/grid_execution.h"

namespace scramjet::cuda_host {

/// `__shared__ float sums[4][32];` is rewritten as
///
///     auto& sums = shared<float[4][32]>([] {});
///
/// The type of the lambda tells one declaration, and one instance of a template, from another.
template <typename T, typename Declaration>
T& shared(Declaration /*unique*/) {
  static_assert(std::is_trivially_destructible_v<T>);
  static const int variable = new_shared_variable();
  return *static_cast<T*>(shared_memory(variable, sizeof(T)));
}

/// `extern __shared__ float room[];` is rewritten as
///
///     auto* const room = dynamic_shared<float>();
template <typename T>
T* dynamic_shared() {
  return static_cast<T*>(dynamic_shared_memory());
}

}  // namespace scramjet::cuda_host
