#include <torch/library.h>

#include "ops/elementwise_layout.h"
#include "ops/glu/glu_arguments.h"

namespace scramjet::ops {
namespace {

using Gradients = std::tuple<at::Tensor, at::Tensor>;

at::Tensor empty_like_result(const char* op, const at::Tensor& gate, const at::Tensor& up) {
  check_glu(op, gate, up);
  return empty_elementwise_output({gate, up}, gate.scalar_type());
}

Gradients empty_like_gradients(const char* op, const at::Tensor& grad_output,
                               const at::Tensor& gate, const at::Tensor& up) {
  check_glu_backward(op, grad_output, gate, up);
  const auto empty = [&] {
    return empty_elementwise_output({grad_output, gate, up}, gate.scalar_type());
  };
  return {empty(), empty()};
}

at::Tensor silu_mul_meta(const at::Tensor& gate, const at::Tensor& up) {
  return empty_like_result("scramjet::silu_mul", gate, up);
}

at::Tensor gelu_mul_meta(const at::Tensor& gate, const at::Tensor& up,
                         std::string_view approximate) {
  is_tanh("scramjet::gelu_mul", approximate);
  return empty_like_result("scramjet::gelu_mul", gate, up);
}

Gradients silu_mul_backward_meta(const at::Tensor& grad_output, const at::Tensor& gate,
                                 const at::Tensor& up) {
  return empty_like_gradients("scramjet::silu_mul_backward", grad_output, gate, up);
}

Gradients gelu_mul_backward_meta(const at::Tensor& grad_output, const at::Tensor& gate,
                                 const at::Tensor& up, std::string_view approximate) {
  is_tanh("scramjet::gelu_mul_backward", approximate);
  return empty_like_gradients("scramjet::gelu_mul_backward", grad_output, gate, up);
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, Meta, m) {
  m.impl("silu_mul", silu_mul_meta);
  m.impl("gelu_mul", gelu_mul_meta);
  m.impl("silu_mul_backward", silu_mul_backward_meta);
  m.impl("gelu_mul_backward", gelu_mul_backward_meta);
}

}  // namespace scramjet::ops
