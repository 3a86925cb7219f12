#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include "ops/rope/rope.h"
#include "ops/rope/rope_arguments.h"
#include "ops/rope/rope_kernels.h"

namespace scramjet::ops {
namespace {

/// torch casts for none of the operators that rope is made of; the tables follow the input.
template <c10::DeviceType kDevice>
at::Tensor rope_autocast(const RopeArguments& call) {
  const c10::impl::ExcludeDispatchKeyGuard guard(
      at::autocast::get_autocast_dispatch_key_from_device_type(kDevice));
  const at::ScalarType dtype = call.input.scalar_type();
  // Float serves half and bfloat16 too.
  const auto cast = [&](const at::Tensor& table) {
    const bool fits =
        table.scalar_type() == dtype && call.cos.scalar_type() == call.sin.scalar_type();
    return fits ? table : table.to(call.compute_dtype());
  };
  return ops::rope(call.input, cast(call.cos), cast(call.sin), call.positions, call.interleaved,
                   call.sequence_dim, call.inverse);
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, AutocastCPU, m) {
  m.impl("rope", rope_kernel<rope_autocast<c10::DeviceType::CPU>>);
}

TORCH_LIBRARY_IMPL(scramjet, AutocastCUDA, m) {
  m.impl("rope", rope_kernel<rope_autocast<c10::DeviceType::CUDA>>);
}

}  // namespace scramjet::ops
