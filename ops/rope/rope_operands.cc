#include "ops/rope/rope_operands.h"

namespace scramjet::ops {
namespace {

/// How far the positions go on with each step along dimension `d` of the input.
int64_t position_stride(const RopeArguments& call, const at::Tensor& positions, int64_t d) {
  if (d == call.sequence_axis()) return positions.defined() ? positions.stride(-1) : 1;
  const bool is_batch = d == 0 && positions.defined() && positions.dim() == 2;
  return is_batch ? positions.stride(0) : 0;
}

/// The heads of `input` in as few dimensions as the strides allow; false where those are too many.
bool find_heads(const RopeArguments& call, const at::Tensor& input, const at::Tensor& positions,
                RopeRows& rows) {
  rows.dims = 0;
  for (int64_t d = 0; d + 1 < input.dim(); ++d) {
    const int64_t size = input.size(d);
    const int64_t stride = input.stride(d);
    const int64_t of_position = position_stride(call, positions, d);
    if (size == 1) continue;
    const int last = rows.dims - 1;
    if (last >= 0 && rows.input_strides[last] == size * stride &&
        rows.position_strides[last] == size * of_position) {
      rows.sizes[last] *= size;
      rows.input_strides[last] = stride;
      rows.position_strides[last] = of_position;
      continue;
    }
    if (rows.dims == RopeRows::kMaxDims) return false;
    rows.sizes[rows.dims] = size;
    rows.input_strides[rows.dims] = stride;
    rows.position_strides[rows.dims] = of_position;
    ++rows.dims;
  }
  return true;
}

at::Tensor with_dense_heads(const at::Tensor& x) {
  return x.size(-1) == 1 || x.stride(-1) == 1 ? x : x.contiguous();
}

const char* data_of(const at::Tensor& x) { return static_cast<const char*>(x.const_data_ptr()); }

}  // namespace

RopeOperands::RopeOperands(const RopeArguments& call, const at::Tensor& output)
    : row_count_(call.input.numel() / call.input.size(-1)),
      input_(with_dense_heads(call.input)),
      cos_(call.cos.contiguous()),
      sin_(call.sin.contiguous()) {
  if (call.positions.defined()) positions_ = call.positions.to(at::kLong).contiguous();
  if (!find_heads(call, input_, positions_, rows_)) {
    input_ = input_.contiguous();
    find_heads(call, input_, positions_, rows_);
  }
  rows_.head_dim = call.input.size(-1);
  rows_.pairs = call.cos.size(1);
  rows_.input = data_of(input_);
  rows_.output = static_cast<char*>(output.mutable_data_ptr());
  if (positions_.defined()) rows_.positions = positions_.const_data_ptr<int64_t>();
  rows_.max_positions = call.cos.size(0);
  rows_.cos = data_of(cos_);
  rows_.sin = data_of(sin_);
  rows_.inverse = call.inverse;
}

}  // namespace scramjet::ops
