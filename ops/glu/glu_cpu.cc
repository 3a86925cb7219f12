#include <torch/library.h>

#include "ops/elementwise_cpu.h"
#include "ops/glu/glu_arguments.h"
#include "ops/glu/glu_cpu_kernel.h"

namespace scramjet::ops {
namespace {

using Gradients = std::tuple<at::Tensor, at::Tensor>;

at::Tensor silu_mul_cpu(const at::Tensor& gate, const at::Tensor& up) {
  static auto* const loop_for = SCRAMJET_FOR_THIS_CPU(silu_mul_loop);
  check_glu("scramjet::silu_mul", gate, up);
  return run_elementwise(loop_for(gate.scalar_type()), {gate, up});
}

at::Tensor gelu_mul_cpu(const at::Tensor& gate, const at::Tensor& up,
                        std::string_view approximate) {
  static auto* const erf_loop_for = SCRAMJET_FOR_THIS_CPU(gelu_mul_loop);
  static auto* const tanh_loop_for = SCRAMJET_FOR_THIS_CPU(gelu_tanh_mul_loop);
  constexpr const char* kOp = "scramjet::gelu_mul";
  check_glu(kOp, gate, up);
  auto* const loop_for = is_tanh(kOp, approximate) ? tanh_loop_for : erf_loop_for;
  return run_elementwise(loop_for(gate.scalar_type()), {gate, up});
}

Gradients silu_mul_backward_cpu(const at::Tensor& grad_output, const at::Tensor& gate,
                                const at::Tensor& up) {
  static auto* const loop_for = SCRAMJET_FOR_THIS_CPU(silu_mul_backward_loop);
  check_glu_backward("scramjet::silu_mul_backward", grad_output, gate, up);
  return run_elementwise_pair(loop_for(gate.scalar_type()), {grad_output, gate, up});
}

Gradients gelu_mul_backward_cpu(const at::Tensor& grad_output, const at::Tensor& gate,
                                const at::Tensor& up, std::string_view approximate) {
  static auto* const erf_loop_for = SCRAMJET_FOR_THIS_CPU(gelu_mul_backward_loop);
  static auto* const tanh_loop_for = SCRAMJET_FOR_THIS_CPU(gelu_tanh_mul_backward_loop);
  constexpr const char* kOp = "scramjet::gelu_mul_backward";
  check_glu_backward(kOp, grad_output, gate, up);
  auto* const loop_for = is_tanh(kOp, approximate) ? tanh_loop_for : erf_loop_for;
  return run_elementwise_pair(loop_for(gate.scalar_type()), {grad_output, gate, up});
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, CPU, m) {
  m.impl("silu_mul", silu_mul_cpu);
  m.impl("gelu_mul", gelu_mul_cpu);
  m.impl("silu_mul_backward", silu_mul_backward_cpu);
  m.impl("gelu_mul_backward", gelu_mul_backward_cpu);
}

}  // namespace scramjet::ops
