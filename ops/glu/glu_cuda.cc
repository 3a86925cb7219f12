#include <torch/library.h>

#include "ops/elementwise_cuda.h"
#include "ops/glu/glu_arguments.h"
#include "ops/glu/glu_cuda_kernel.h"

namespace scramjet::ops {
namespace {

using Gradients = std::tuple<at::Tensor, at::Tensor>;

at::Tensor silu_mul_cuda(const at::Tensor& gate, const at::Tensor& up) {
  check_glu("scramjet::silu_mul", gate, up);
  return run_elementwise(launch_silu_mul, {gate, up});
}

at::Tensor gelu_mul_cuda(const at::Tensor& gate, const at::Tensor& up,
                         std::string_view approximate) {
  constexpr const char* kOp = "scramjet::gelu_mul";
  check_glu(kOp, gate, up);
  auto* const launch = is_tanh(kOp, approximate) ? launch_gelu_tanh_mul : launch_gelu_mul;
  return run_elementwise(launch, {gate, up});
}

Gradients silu_mul_backward_cuda(const at::Tensor& grad_output, const at::Tensor& gate,
                                 const at::Tensor& up) {
  check_glu_backward("scramjet::silu_mul_backward", grad_output, gate, up);
  return run_elementwise_pair(launch_silu_mul_backward, {grad_output, gate, up});
}

Gradients gelu_mul_backward_cuda(const at::Tensor& grad_output, const at::Tensor& gate,
                                 const at::Tensor& up, std::string_view approximate) {
  constexpr const char* kOp = "scramjet::gelu_mul_backward";
  check_glu_backward(kOp, grad_output, gate, up);
  auto* const launch =
      is_tanh(kOp, approximate) ? launch_gelu_tanh_mul_backward : launch_gelu_mul_backward;
  return run_elementwise_pair(launch, {grad_output, gate, up});
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, CUDA, m) {
  m.impl("silu_mul", silu_mul_cuda);
  m.impl("gelu_mul", gelu_mul_cuda);
  m.impl("silu_mul_backward", silu_mul_backward_cuda);
  m.impl("gelu_mul_backward", gelu_mul_backward_cuda);
}

}  // namespace scramjet::ops
