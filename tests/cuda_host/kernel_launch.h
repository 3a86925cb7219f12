#pragma once

#include <cuda_runtime.h>

#include "tests/cuda_host/grid_execution.h"

namespace scramjet::cuda_host {

/// The dynamic shared memory that a kernel may ask for, where cudaFuncSetAttribute raised it.
size_t dynamic_shared_limit(const void* kernel);
cudaError_t set_attribute(const void* kernel, cudaFuncAttribute attribute, int value);

/// A kernel with its launch configuration; calling it runs it to its end.
template <typename... Parameters>
class Launch {
 public:
  Launch(void (*kernel)(Parameters...), const LaunchShape& shape)
      : kernel_(kernel), shape_(shape) {}

  void operator()(Parameters... arguments) const {
    run_grid(shape_, [&] { kernel_(arguments...); });
  }

 private:
  void (*kernel_)(Parameters...);
  LaunchShape shape_;
};

/// kernel<<<grid, block, shared_bytes, stream>>>
template <typename... Parameters>
Launch<Parameters...> launch(void (*kernel)(Parameters...), dim3 grid, dim3 block,
                             size_t shared_bytes = 0, cudaStream_t /*stream*/ = nullptr) {
  const void* const key = reinterpret_cast<const void*>(kernel);
  return {kernel, {grid, block, shared_bytes, dynamic_shared_limit(key)}};
}

template <typename Kernel>
cudaError_t set_attribute(Kernel* kernel, cudaFuncAttribute attribute, int value) {
  return set_attribute(reinterpret_cast<const void*>(kernel), attribute, value);
}

inline cudaError_t no_error() { return cudaSuccess; }

}  // namespace scramjet::cuda_host

// The CUDA runtime's own functions would look for a device.
#define cudaFuncSetAttribute ::scramjet::cuda_host::set_attribute
#define cudaGetLastError ::scramjet::cuda_host::no_error
#define cudaPeekAtLastError ::scramjet::cuda_host::no_error
