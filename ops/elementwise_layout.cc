#include "ops/elementwise_layout.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/SymBool.h>
#include <c10/util/irange.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace scramjet::ops {
namespace {

bool all_contiguous(at::TensorList inputs, at::MemoryFormat format) {
  return std::all_of(inputs.begin(), inputs.end(),
                     [&](const at::Tensor& x) { return x.is_contiguous_or_false(format); });
}

bool all_dense_with_equal_strides(at::TensorList inputs) {
  return std::all_of(inputs.begin(), inputs.end(), [&](const at::Tensor& x) {
    if (!x.unsafeGetTensorImpl()->is_non_overlapping_and_dense_or_false()) return false;
    for (const auto d : c10::irange(x.dim())) {
      if (!TORCH_GUARD_OR_FALSE(x.sym_stride(d).sym_eq(inputs[0].sym_stride(d)))) return false;
    }
    return true;
  });
}

/// > 0 where dimension `a` has to stand outside `b`, < 0 the other way round, 0 where no input
/// tells.
int compare_dimensions(at::TensorList inputs, int64_t a, int64_t b) {
  for (const at::Tensor& x : inputs) {
    const c10::SymInt stride_a = x.sym_stride(a);
    const c10::SymInt stride_b = x.sym_stride(b);
    if (TORCH_GUARD_OR_FALSE(stride_a.sym_eq(0)) || TORCH_GUARD_OR_FALSE(stride_b.sym_eq(0))) {
      continue;
    }
    if (TORCH_GUARD_OR_FALSE(stride_a.sym_lt(stride_b))) return -1;
    if (TORCH_GUARD_OR_FALSE(stride_a.sym_gt(stride_b))) return 1;
    if (TORCH_GUARD_OR_FALSE(x.sym_size(a).sym_gt(x.sym_size(b)))) return 1;
  }
  return 0;
}

/// The dimensions from the innermost out. An insertion sort, as TensorIterator's: the comparison
/// is not transitive (0 says "unknown"), so another sort would give another order.
std::vector<int64_t> memory_order(at::TensorList inputs) {
  std::vector<int64_t> order(inputs[0].dim());
  std::iota(order.rbegin(), order.rend(), 0);
  for (int64_t i = 1; i < inputs[0].dim(); ++i) {
    int64_t moving = i;
    for (int64_t inner = i - 1; inner >= 0; --inner) {
      const int comparison = compare_dimensions(inputs, order[inner], order[moving]);
      if (comparison < 0) break;
      if (comparison > 0) {
        std::swap(order[inner], order[moving]);
        moving = inner;
      }
    }
  }
  return order;
}

}  // namespace

at::Tensor empty_elementwise_output(at::TensorList inputs, at::ScalarType dtype) {
  const at::Tensor& x = inputs[0];
  const at::TensorOptions options = x.options().dtype(dtype);
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    if (all_contiguous(inputs, format)) return at::empty_symint(x.sym_sizes(), options, format);
  }
  if (all_dense_with_equal_strides(inputs)) {
    return at::empty_strided_symint(x.sym_sizes(), x.sym_strides(), options);
  }
  const std::vector<int64_t> order = memory_order(inputs);
  if (std::is_sorted(order.rbegin(), order.rend())) {
    return at::empty_symint(x.sym_sizes(), options, at::MemoryFormat::Contiguous);
  }
  std::vector<c10::SymInt> strides(x.dim());
  c10::SymInt stride = 1;
  for (const int64_t d : order) {
    strides[d] = stride;
    stride *= x.sym_size(d);
  }
  return at::empty_strided_symint(x.sym_sizes(), strides, options);
}

}  // namespace scramjet::ops
