#include "ops/elementwise_cuda.h"

#include <ATen/TensorIterator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

#include "ops/cuda_call.h"

namespace scramjet::ops {
namespace {

void launch_over(at::TensorIteratorBase& iter, ElementwiseLauncher* launch) {
  if (iter.numel() == 0) return;
  TORCH_CHECK_NOT_IMPLEMENTED(
      iter.ndim() <= ElementwiseLaunch::kMaxDims, "scramjet: got strides that need ", iter.ndim(),
      " dimensions; expected at most ", ElementwiseLaunch::kMaxDims, ": call contiguous() first");
  const c10::cuda::CUDAGuard guard(iter.device(0));
  ElementwiseLaunch arguments;
  arguments.dtype = cuda_dtype(iter.dtype(0));
  arguments.numel = iter.numel();
  arguments.contiguous = iter.is_contiguous();
  arguments.dims = iter.ndim();
  arguments.stream = current_cuda_stream();
  for (int d = 0; d < iter.ndim(); ++d) arguments.sizes[d] = iter.shape()[d];
  for (int k = 0; k < iter.ntensors(); ++k) {
    arguments.data[k] = static_cast<char*>(iter.data_ptr(k));
    for (int d = 0; d < iter.ndim(); ++d) arguments.strides[k][d] = iter.strides(k)[d];
  }
  launch(arguments);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

void run(ElementwiseLauncher* launch, at::ArrayRef<at::Tensor*> outputs, at::TensorList inputs) {
  TORCH_INTERNAL_ASSERT(outputs.size() + inputs.size() <= ElementwiseLaunch::kMaxOperands);
  at::TensorIteratorConfig config;
  for (const at::Tensor* output : outputs) config.add_owned_output(*output);
  for (const at::Tensor& input : inputs) config.add_owned_const_input(input);
  at::TensorIterator iterator = config.build();
  launch_over(iterator, launch);
  for (size_t k = 0; k < outputs.size(); ++k) {
    *outputs[k] = iterator.output(static_cast<int64_t>(k));
  }
}

}  // namespace

at::Tensor run_elementwise(ElementwiseLauncher* launch, at::TensorList inputs) {
  at::Tensor output;
  run(launch, {&output}, inputs);
  return output;
}

std::tuple<at::Tensor, at::Tensor> run_elementwise_pair(ElementwiseLauncher* launch,
                                                        at::TensorList inputs) {
  at::Tensor first;
  at::Tensor second;
  run(launch, {&first, &second}, inputs);
  return {first, second};
}

}  // namespace scramjet::ops
