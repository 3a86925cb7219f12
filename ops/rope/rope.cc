#include "ops/rope/rope.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "ops/argument_checks.h"
#include "ops/rope/rope_arguments.h"
#include "ops/rope/rope_kernels.h"

namespace scramjet::ops {
namespace {

void check_supported(const char* argument, const at::Tensor& x) {
  const bool is_supported =
      !x.defined() || (x.layout() == at::kStrided && (x.is_cpu() || x.is_cuda()));
  if (!is_supported) fail_unsupported(RopeArguments::op, argument, x);
}

at::Tensor unsupported_rope(const RopeArguments& call) {
  check_supported("input", call.input);
  check_supported("cos", call.cos);
  check_supported("sin", call.sin);
  check_supported("positions", call.positions);
  fail_unsupported(call.op, "input", call.input);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(scramjet, m) {
  m.def(
      "rope(Tensor input, Tensor cos, Tensor sin, Tensor? positions=None, *, "
      "bool interleaved=False, int sequence_dim=-2, bool inverse=False) -> Tensor",
      {at::Tag::pt2_compliant_tag});
}

// Backends without a kernel of their own come here, for a clearer error than the dispatcher's.
TORCH_LIBRARY_IMPL(scramjet, CompositeExplicitAutograd, m) {
  m.impl("rope", rope_kernel<unsupported_rope>);
}

at::Tensor rope(const at::Tensor& input, const at::Tensor& cos, const at::Tensor& sin,
                const std::optional<at::Tensor>& positions, bool interleaved, int64_t sequence_dim,
                bool inverse) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("scramjet::rope", "").typed<decltype(rope)>();
  return op.call(input, cos, sin, positions, interleaved, sequence_dim, inverse);
}

}  // namespace scramjet::ops
