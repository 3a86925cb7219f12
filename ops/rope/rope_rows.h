#pragma once

#include <cstdint>

/// What the kernels of rope are told, on CPU and CUDA: pointers and sizes, strides in elements.
namespace scramjet::ops {

/// The heads to rotate, counted through `sizes`, the last dimension innermost; the elements of one
/// are dense, in the input and in the output, and so are the heads of the output.
struct RopeRows {
  static constexpr int kMaxDims = 8;

  int64_t head_dim = 0;
  int64_t pairs = 0;  // 2 * pairs <= head_dim; the elements behind them are copied.
  const char* input = nullptr;
  char* output = nullptr;
  int dims = 0;
  int64_t sizes[kMaxDims] = {};
  int64_t input_strides[kMaxDims] = {};
  /// Through `positions` or, without them, of the positions themselves.
  int64_t position_strides[kMaxDims] = {};
  const int64_t* positions = nullptr;
  int64_t max_positions = 0;
  const char* cos = nullptr;  // [max_positions, pairs]
  const char* sin = nullptr;
  bool inverse = false;
};

}  // namespace scramjet::ops
