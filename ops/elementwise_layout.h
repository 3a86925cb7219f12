#pragma once

#include <ATen/core/Tensor.h>

namespace scramjet::ops {

/// The output that TensorIterator would allocate for an elementwise operator: uninitialised, on
/// the device of `inputs[0]`, of the inputs' common shape. Sizes and strides may be symbolic, which
/// TensorIterator does not take: Meta kernels allocate by this function.
///
/// The rules are those of TensorIteratorBase (aten/src/ATen/TensorIterator.cpp):
/// compute_fast_setup_type for contiguous, channels_last and equal dense strides, else the
/// permutation of reorder_dimensions.
at::Tensor empty_elementwise_output(at::TensorList inputs, at::ScalarType dtype);

}  // namespace scramjet::ops
