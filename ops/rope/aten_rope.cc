#include "ops/rope/aten_rope.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>

namespace scramjet::ops {
namespace {

/// The rows of a table at the positions, to be broadcast to the pairs of the input.
at::Tensor at_positions(const RopeArguments& call, const at::Tensor& table) {
  const int64_t axis = call.sequence_axis();
  at::Tensor rows;
  if (call.positions.defined()) {
    rows = table.index_select(0, call.positions.reshape(-1));
    if (call.positions.dim() == 2) rows = rows.unflatten_symint(0, call.positions.sym_sizes());
  } else {
    rows = table.slice_symint(0, 0, call.input.sym_size(axis));
  }
  // [sequence, 1..., pairs] or [batch, 1..., sequence, 1..., pairs].
  for (int64_t d = axis + 2; d < call.input.dim(); ++d) rows = rows.unsqueeze(-2);
  while (rows.dim() > call.input.dim() - axis && rows.dim() < call.input.dim()) {
    rows = rows.unsqueeze(1);
  }
  return rows.to(call.compute_dtype());
}

}  // namespace

at::Tensor aten_rope(const RopeArguments& call) {
  check_rope(call);
  const at::Tensor cos = at_positions(call, call.cos);
  const at::Tensor sin = at_positions(call, call.inverse ? call.sin.neg() : call.sin);
  const c10::SymInt pairs = call.cos.sym_size(1);
  const at::Tensor x = call.input.to(call.compute_dtype());
  const at::Tensor rotated = x.slice_symint(-1, 0, pairs * 2);
  const at::Tensor a =
      call.interleaved ? rotated.slice_symint(-1, 0, {}, 2) : rotated.slice_symint(-1, 0, pairs);
  const at::Tensor b =
      call.interleaved ? rotated.slice_symint(-1, 1, {}, 2) : rotated.slice_symint(-1, pairs, {});
  const at::Tensor new_a = a.mul(cos).sub(b.mul(sin));
  const at::Tensor new_b = b.mul(cos).add(a.mul(sin));
  const at::Tensor turned =
      call.interleaved ? at::stack({new_a, new_b}, -1).flatten(-2) : at::cat({new_a, new_b}, -1);
  return at::cat({turned, x.slice_symint(-1, pairs * 2, {})}, -1).to(call.input.scalar_type());
}

}  // namespace scramjet::ops
