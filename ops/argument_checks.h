#pragma once

#include <ATen/core/Tensor.h>

/// The errors of bad arguments, worded alike by every operator: op, argument, got, expected.
namespace scramjet::ops {

/// TypeError unless `x` is float, double, half or bfloat16.
void check_floating(const char* op, const char* argument, const at::Tensor& x);

/// TypeError unless `x` is of such a dtype, an integer or bool (which eager operators promote to
/// the default dtype).
void check_real(const char* op, const char* argument, const at::Tensor& x);

/// TypeError or ValueError unless both have the same dtype, shape and device.
void check_alike(const char* op, const char* argument, const at::Tensor& x,
                 const char* other_argument, const at::Tensor& other);

/// NotImplementedError for a tensor whose device or layout has no kernel.
[[noreturn]] void fail_unsupported(const char* op, const char* argument, const at::Tensor& x);

}  // namespace scramjet::ops
