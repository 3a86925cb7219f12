#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace scramjet::ops {

/// A tensor as a matrix: its last dimensions are a row.
struct MatrixRows {
  /// What holds the elements: the tensor itself, or a dense copy where its strides don't fit.
  at::Tensor owner;
  /// In elements, from the start of one row to the next; within a row they are dense.
  int64_t stride = 0;
};

/// `x` in rows of `columns` elements, its last dimensions. Without a copy where rows are dense and
/// lie in equal distances, as those of a slice or of a part of a projection do.
MatrixRows matrix_rows(const at::Tensor& x, int64_t columns);

}  // namespace scramjet::ops
