#include "ops/softmax/softmax.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "ops/argument_checks.h"
#include "ops/softmax/softmax_kernels.h"

namespace scramjet::ops {
namespace {

using Optional = std::optional<at::Tensor>;

void check_supported(const char* op, const char* argument, const at::Tensor& x) {
  const bool is_supported =
      !x.defined() || (x.layout() == at::kStrided && (x.is_cpu() || x.is_cuda()));
  if (!is_supported) fail_unsupported(op, argument, x);
}

[[noreturn]] void fail(const SoftmaxArguments& call) {
  check_supported(call.op, call.x_name, call.x);
  check_supported(call.op, "mask", call.mask);
  fail_unsupported(call.op, call.x_name, call.x);
}

at::Tensor unsupported_softmax(const SoftmaxArguments& call) { fail(call); }

at::Tensor unsupported_softmax_backward(const SoftmaxArguments& call,
                                        const at::Tensor& grad_output) {
  check_supported(call.op, "grad_output", grad_output);
  fail(call);
}

template <typename Signature>
c10::TypedOperatorHandle<Signature> find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(scramjet, m) {
  const std::vector<at::Tag> tags = {at::Tag::pt2_compliant_tag};
  m.def("softmax(Tensor input, Tensor? mask=None, *, float scale=1.0, bool causal=False) -> Tensor",
        tags);
  m.def(
      "softmax_backward(Tensor grad_output, Tensor output, Tensor? mask=None, *, "
      "float scale=1.0, bool causal=False) -> Tensor",
      tags);
}

// Backends without a kernel of their own come here, for a clearer error than the dispatcher's.
TORCH_LIBRARY_IMPL(scramjet, CompositeExplicitAutograd, m) {
  SoftmaxKernels<unsupported_softmax, unsupported_softmax_backward>::add_to(m);
}

at::Tensor softmax(const at::Tensor& input, const Optional& mask, double scale, bool causal) {
  static const auto op = find_operator<decltype(softmax)>("scramjet::softmax");
  return op.call(input, mask, scale, causal);
}

at::Tensor softmax_backward(const at::Tensor& grad_output, const at::Tensor& output,
                            const Optional& mask, double scale, bool causal) {
  static const auto op = find_operator<decltype(softmax_backward)>("scramjet::softmax_backward");
  return op.call(grad_output, output, mask, scale, causal);
}

}  // namespace scramjet::ops
