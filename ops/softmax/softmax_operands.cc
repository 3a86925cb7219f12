#include "ops/softmax/softmax_operands.h"

#include <vector>

namespace scramjet::ops {
namespace {

int64_t columns_of(const SoftmaxArguments& call) { return call.x.size(-1); }

int64_t queries_of(const SoftmaxArguments& call) { return call.causal ? call.x.size(-2) : 0; }

const char* data_of(const MatrixRows& x) {
  return static_cast<const char*>(x.owner.const_data_ptr());
}

/// `mask` with rows of `columns` dense elements; its other dimensions stay unbroadcast.
at::Tensor with_dense_rows(const at::Tensor& mask, int64_t columns) {
  const bool is_dense =
      mask.dim() > 0 && mask.size(-1) == columns && (columns == 1 || mask.stride(-1) == 1);
  if (is_dense) return mask;
  std::vector<int64_t> sizes = mask.sizes().vec();
  if (sizes.empty()) sizes.push_back(1);
  sizes.back() = columns;
  return mask.expand(sizes).contiguous();
}

/// The rows of `mask`, of input's shape, with as few dimensions as its strides allow; false where
/// those are too many.
bool find_rows(const at::Tensor& mask, MaskRows& rows) {
  rows = {static_cast<const char*>(mask.const_data_ptr())};
  for (int64_t d = 0; d + 1 < mask.dim(); ++d) {
    if (mask.size(d) == 1) continue;
    const int last = rows.dims - 1;
    if (last >= 0 && rows.strides[last] == mask.size(d) * mask.stride(d)) {
      rows.sizes[last] *= mask.size(d);
      rows.strides[last] = mask.stride(d);
      continue;
    }
    if (rows.dims == MaskRows::kMaxDims) return false;
    rows.sizes[rows.dims] = mask.size(d);
    rows.strides[rows.dims] = mask.stride(d);
    ++rows.dims;
  }
  return true;
}

}  // namespace

MaskKind mask_kind(const SoftmaxArguments& call) {
  if (!call.mask.defined()) return MaskKind::kNone;
  if (call.has_bool_mask()) return MaskKind::kBool;
  return call.mask.scalar_type() == call.x.scalar_type() ? MaskKind::kOfDtype : MaskKind::kFloat;
}

MaskOperand::MaskOperand(const SoftmaxArguments& call) {
  if (!call.mask.defined()) return;
  owner_ = with_dense_rows(call.mask, columns_of(call)).expand(call.x.sizes());
  if (find_rows(owner_, rows_)) return;
  owner_ = owner_.contiguous();
  find_rows(owner_, rows_);
}

SoftmaxOperands::SoftmaxOperands(const SoftmaxArguments& call, const at::Tensor& output)
    : row_count_(call.x.numel() / columns_of(call)),
      input_(matrix_rows(call.x, columns_of(call))),
      mask_(call) {
  rows_.columns = columns_of(call);
  rows_.scale = call.scale;
  rows_.queries = queries_of(call);
  rows_.input = data_of(input_);
  rows_.input_stride = input_.stride;
  rows_.mask = mask_.rows();
  rows_.output = static_cast<char*>(output.mutable_data_ptr());
}

SoftmaxBackwardOperands::SoftmaxBackwardOperands(const SoftmaxArguments& call,
                                                 const at::Tensor& grad_output,
                                                 const at::Tensor& grad_input)
    : row_count_(call.x.numel() / columns_of(call)),
      grad_output_(matrix_rows(grad_output, columns_of(call))),
      output_(matrix_rows(call.x, columns_of(call))),
      mask_(call) {
  rows_.columns = columns_of(call);
  rows_.scale = call.scale;
  rows_.queries = queries_of(call);
  rows_.grad_output = data_of(grad_output_);
  rows_.grad_output_stride = grad_output_.stride;
  rows_.output = data_of(output_);
  rows_.output_stride = output_.stride;
  rows_.mask = mask_.rows();
  rows_.grad_input = static_cast<char*>(grad_input.mutable_data_ptr());
}

}  // namespace scramjet::ops
