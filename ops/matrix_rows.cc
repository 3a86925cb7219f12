#include "ops/matrix_rows.h"

#include <ATen/TensorUtils.h>

#include <array>

namespace scramjet::ops {

MatrixRows matrix_rows(const at::Tensor& x, int64_t columns) {
  if (x.numel() == 0 || x.is_contiguous()) return {x.contiguous(), columns};
  const std::array<int64_t, 2> shape = {x.numel() / columns, columns};
  const auto strides = at::detail::computeStride(x.sizes(), x.strides(), at::IntArrayRef(shape));
  const bool fits = strides && (columns == 1 || (*strides)[1] == 1);
  if (!fits) return {x.contiguous(), columns};
  return {x, (*strides)[0]};
}

}  // namespace scramjet::ops
