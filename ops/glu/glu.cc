#include "ops/glu/glu.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "ops/argument_checks.h"

namespace scramjet::ops {
namespace {

using Gradients = std::tuple<at::Tensor, at::Tensor>;

bool is_supported(const at::Tensor& x) {
  return x.layout() == at::kStrided && (x.is_cpu() || x.is_cuda());
}

// Backends without a kernel of their own come here, for a clearer error than the dispatcher's.
at::Tensor unsupported_silu_mul(const at::Tensor& gate, const at::Tensor& up) {
  const bool is_up = is_supported(gate);
  fail_unsupported("scramjet::silu_mul", is_up ? "up" : "gate", is_up ? up : gate);
}

at::Tensor unsupported_gelu_mul(const at::Tensor& gate, const at::Tensor& up,
                                std::string_view /*approximate*/) {
  const bool is_up = is_supported(gate);
  fail_unsupported("scramjet::gelu_mul", is_up ? "up" : "gate", is_up ? up : gate);
}

[[noreturn]] void fail_backward(const char* op, const at::Tensor& grad_output,
                                const at::Tensor& gate, const at::Tensor& up) {
  if (!is_supported(gate)) fail_unsupported(op, "gate", gate);
  if (!is_supported(up)) fail_unsupported(op, "up", up);
  fail_unsupported(op, "grad_output", grad_output);
}

Gradients unsupported_silu_mul_backward(const at::Tensor& grad_output, const at::Tensor& gate,
                                        const at::Tensor& up) {
  fail_backward("scramjet::silu_mul_backward", grad_output, gate, up);
}

Gradients unsupported_gelu_mul_backward(const at::Tensor& grad_output, const at::Tensor& gate,
                                        const at::Tensor& up, std::string_view /*approximate*/) {
  fail_backward("scramjet::gelu_mul_backward", grad_output, gate, up);
}

template <typename Signature>
c10::TypedOperatorHandle<Signature> find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(scramjet, m) {
  const std::vector<at::Tag> tags = {at::Tag::pt2_compliant_tag, at::Tag::pointwise};
  m.def("silu_mul(Tensor gate, Tensor up) -> Tensor", tags);
  m.def("gelu_mul(Tensor gate, Tensor up, *, str approximate='none') -> Tensor", tags);
  m.def(
      "silu_mul_backward(Tensor grad_output, Tensor gate, Tensor up) -> (Tensor grad_gate, "
      "Tensor grad_up)",
      tags);
  m.def(
      "gelu_mul_backward(Tensor grad_output, Tensor gate, Tensor up, *, str approximate='none') -> "
      "(Tensor grad_gate, Tensor grad_up)",
      tags);
}

TORCH_LIBRARY_IMPL(scramjet, CompositeExplicitAutograd, m) {
  m.impl("silu_mul", unsupported_silu_mul);
  m.impl("gelu_mul", unsupported_gelu_mul);
  m.impl("silu_mul_backward", unsupported_silu_mul_backward);
  m.impl("gelu_mul_backward", unsupported_gelu_mul_backward);
}

at::Tensor silu_mul(const at::Tensor& gate, const at::Tensor& up) {
  static const auto op = find_operator<decltype(silu_mul)>("scramjet::silu_mul");
  return op.call(gate, up);
}

at::Tensor gelu_mul(const at::Tensor& gate, const at::Tensor& up, std::string_view approximate) {
  static const auto op = find_operator<decltype(gelu_mul)>("scramjet::gelu_mul");
  return op.call(gate, up, approximate);
}

Gradients silu_mul_backward(const at::Tensor& grad_output, const at::Tensor& gate,
                            const at::Tensor& up) {
  static const auto op = find_operator<decltype(silu_mul_backward)>("scramjet::silu_mul_backward");
  return op.call(grad_output, gate, up);
}

Gradients gelu_mul_backward(const at::Tensor& grad_output, const at::Tensor& gate,
                            const at::Tensor& up, std::string_view approximate) {
  static const auto op = find_operator<decltype(gelu_mul_backward)>("scramjet::gelu_mul_backward");
  return op.call(grad_output, gate, up, approximate);
}

}  // namespace scramjet::ops
