#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/autograd_conditions.h"
#include "ops/rope/aten_rope.h"
#include "ops/rope/rope.h"
#include "ops/rope/rope_arguments.h"
#include "ops/rope/rope_kernels.h"

namespace scramjet::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

at::Tensor fused(const RopeArguments& call) {
  at::AutoDispatchBelowADInplaceOrView guard;
  return ops::rope(call.input, call.cos, call.sin, call.positions, call.interleaved,
                   call.sequence_dim, call.inverse);
}

struct RopeFunction : Function<RopeFunction> {
  static constexpr bool is_traceable = true;

  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& /*input*/,
                            const RopeArguments& call) {
    ctx->save_for_backward({call.cos, call.sin, call.positions});
    ctx->saved_data["interleaved"] = call.interleaved;
    ctx->saved_data["sequence_dim"] = call.sequence_dim;
    ctx->saved_data["inverse"] = call.inverse;
    return fused(call);
  }

  /// The transpose of a rotation is its inverse; a node of its own, where one is needed.
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    return {
        ops::rope(grads[0], saved[0], saved[1], saved[2], ctx->saved_data["interleaved"].toBool(),
                  ctx->saved_data["sequence_dim"].toInt(), !ctx->saved_data["inverse"].toBool()),
        {}};
  }
};

at::Tensor rope_autograd(const RopeArguments& call) {
  if (needs_aten_formula(call.input, call.cos, call.sin) || needs_gradient(call.cos, call.sin)) {
    return aten_rope(call);
  }
  if (!needs_gradient(call.input)) return fused(call);
  return RopeFunction::apply(call.input, call);
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, Autograd, m) { m.impl("rope", rope_kernel<rope_autograd>); }

}  // namespace scramjet::ops
