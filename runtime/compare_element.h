#pragma once

// scramjet::compare_element: a condition on one element of a tensor.

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include <string>

namespace scramjet::runtime {

// bool(compare(x.select(dims[0], indices[0]).select(dims[1], indices[1])..., other)), comparison
// being "gt", "lt", "ge", "le", "eq" or "ne". Reads plain CPU memory directly; everything else,
// errors included, goes through ATen.
bool compare_element(const at::Tensor& x, at::IntArrayRef dims, at::IntArrayRef indices,
                     const std::string& comparison, const at::Scalar& other);

}  // namespace scramjet::runtime
