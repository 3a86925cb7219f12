#include <torch/library.h>

#include "ops/rope/aten_rope.h"
#include "ops/rope/rope.h"
#include "ops/rope/rope_arguments.h"
#include "ops/rope/rope_kernels.h"
#include "ops/vmap_batch.h"

namespace scramjet::ops {
namespace {

/// The batch is one more dimension in front, as long as the samples share their tables and have
/// positions of one dimension.
at::Tensor rope_vmap(const RopeArguments& call) {
  check_rope(call);
  const bool has_positions = call.positions.defined();
  if (is_batched(call.cos) || is_batched(call.sin) ||
      (has_positions && call.positions.dim() == 2)) {
    return aten_rope(call);
  }
  const int64_t sequence_dim = call.sequence_axis() - call.input.dim();
  if (!has_positions || !is_batched(call.positions)) {
    const BatchedCall batch(call.input);
    return batch.batched(ops::rope(batch[0], call.cos, call.sin, call.positions, call.interleaved,
                                   sequence_dim, call.inverse));
  }
  const BatchedCall batch({call.input, call.positions});
  return batch.batched(ops::rope(batch[0], call.cos, call.sin, batch[1], call.interleaved,
                                 sequence_dim, call.inverse));
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, FuncTorchBatched, m) { m.impl("rope", rope_kernel<rope_vmap>); }

}  // namespace scramjet::ops
