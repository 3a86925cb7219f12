#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "ops/rope/rope_arguments.h"
#include "ops/rope/rope_kernels.h"

namespace scramjet::ops {
namespace {

at::Tensor rope_meta(const RopeArguments& call) {
  check_rope(call);
  return at::empty_symint(call.input.sym_sizes(), call.input.options());
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, Meta, m) { m.impl("rope", rope_kernel<rope_meta>); }

}  // namespace scramjet::ops
