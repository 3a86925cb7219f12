#pragma once

#include <cstdint>

/// What the kernels of the norms are told, on CPU and CUDA: pointers and sizes.
namespace scramjet::ops {

/// A matrix by its rows, each dense; `stride` elements lie between the starts of two.
struct Rows {
  char* data = nullptr;
  int64_t stride = 0;
};

/// The operands of a norm over each row, null where there is none. What has one element a column is
/// of the parameters' dtype, the rest of the input's.
struct NormRows {
  int64_t columns = 0;
  double eps = 0;
  Rows input;
  Rows residual;  // Its sum with `input` is what is normalized.
  const char* weight = nullptr;
  const char* bias = nullptr;
  Rows output;
  Rows sum;  // Beside `residual`.
};

/// Those of the backward.
struct NormBackwardRows {
  int64_t columns = 0;
  double eps = 0;
  Rows grad_output;
  Rows grad_sum;  // Added to grad_input.
  Rows input;
  const char* weight = nullptr;
  Rows grad_input;
  // Where the terms of the rows are summed up, in the type that the input's dtype computes in.
  char* grad_weight = nullptr;
  char* grad_bias = nullptr;
};

}  // namespace scramjet::ops
