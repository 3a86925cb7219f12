#pragma once

#include <cstdint>

/// Chooses, at run time, among the builds of a kernel that ops/cpu_kernel.bzl makes.
///
///     SCRAMJET_DECLARE_CPU_KERNEL(ElementwiseLoop* sigmoid_loop(c10::ScalarType dtype))
///     static auto* const sigmoid_loop = SCRAMJET_FOR_THIS_CPU(sigmoid_loop);
namespace scramjet::ops {

/// A TensorIterator loop over `size1` rows of `size0` elements. `data` is the output's pointer,
/// then the inputs'; `strides` in bytes: those within a row, then those from row to row.
using ElementwiseLoop = void(char** data, const int64_t* strides, int64_t size0, int64_t size1);

/// The instruction sets a kernel is built for, worst first.
enum class CpuCapability { kDefault, kAvx2, kAvx512 };

/// What ATen itself uses on this machine, so that both compute alike; the environment variable
/// ATEN_CPU_CAPABILITY (default, avx2, avx512) lowers both.
CpuCapability cpu_capability();

/// The one of the three that suits this machine.
template <typename Function>
Function* for_this_cpu(Function* baseline, Function* avx2, Function* avx512) {
  switch (cpu_capability()) {
    case CpuCapability::kAvx512:
      return avx512;
    case CpuCapability::kAvx2:
      return avx2;
    case CpuCapability::kDefault:
      break;
  }
  return baseline;
}

}  // namespace scramjet::ops

/// Declares a kernel's function once for each build of it.
#define SCRAMJET_DECLARE_CPU_KERNEL(...) \
  namespace DEFAULT {                    \
  __VA_ARGS__;                           \
  }                                      \
  namespace AVX2 {                       \
  __VA_ARGS__;                           \
  }                                      \
  namespace AVX512 {                     \
  __VA_ARGS__;                           \
  }

/// The build of `name` that suits this machine.
#define SCRAMJET_FOR_THIS_CPU(name) \
  ::scramjet::ops::for_this_cpu(&DEFAULT::name, &AVX2::name, &AVX512::name)
