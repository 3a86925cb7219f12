#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include "ops/glu/glu.h"

namespace scramjet::ops {
namespace {

// torch casts for none of aten::silu, aten::gelu and aten::mul; a product of two dtypes takes the
// wider one. The fused operators have one dtype, so they are cast to it here.

template <c10::DeviceType kDevice>
class Promoted {
 public:
  Promoted(const at::Tensor& gate, const at::Tensor& up)
      : guard_(at::autocast::get_autocast_dispatch_key_from_device_type(kDevice)) {
    const at::ScalarType dtype = c10::promoteTypes(gate.scalar_type(), up.scalar_type());
    gate_ = gate.to(dtype);
    up_ = up.to(dtype);
  }

  const at::Tensor& gate() const { return gate_; }
  const at::Tensor& up() const { return up_; }

 private:
  c10::impl::ExcludeDispatchKeyGuard guard_;
  at::Tensor gate_;
  at::Tensor up_;
};

template <c10::DeviceType kDevice>
at::Tensor silu_mul_autocast(const at::Tensor& gate, const at::Tensor& up) {
  const Promoted<kDevice> arguments(gate, up);
  return ops::silu_mul(arguments.gate(), arguments.up());
}

template <c10::DeviceType kDevice>
at::Tensor gelu_mul_autocast(const at::Tensor& gate, const at::Tensor& up,
                             std::string_view approximate) {
  const Promoted<kDevice> arguments(gate, up);
  return ops::gelu_mul(arguments.gate(), arguments.up(), approximate);
}

template <c10::DeviceType kDevice>
void register_kernels(torch::Library& m) {
  m.impl("silu_mul", silu_mul_autocast<kDevice>);
  m.impl("gelu_mul", gelu_mul_autocast<kDevice>);
  // The backward's arguments are what the forward had already cast.
  m.impl("silu_mul_backward", torch::CppFunction::makeFallthrough());
  m.impl("gelu_mul_backward", torch::CppFunction::makeFallthrough());
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, AutocastCPU, m) { register_kernels<c10::DeviceType::CPU>(m); }

TORCH_LIBRARY_IMPL(scramjet, AutocastCUDA, m) { register_kernels<c10::DeviceType::CUDA>(m); }

}  // namespace scramjet::ops
