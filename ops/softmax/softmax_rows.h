#pragma once

#include <cstdint>

/// What the kernels of softmax are told, on CPU and CUDA: pointers and sizes, strides in elements.
namespace scramjet::ops {

/// What is added to the scores, or tells which take part.
enum class MaskKind { kNone, kBool, kOfDtype, kFloat };

/// Where the row of a mask lies that belongs to a row of the input: the rows are counted through
/// `sizes`, the last dimension innermost, and shared ones have the stride 0.
struct MaskRows {
  static constexpr int kMaxDims = 8;

  const char* data = nullptr;
  int dims = 0;
  int64_t sizes[kMaxDims] = {};
  int64_t strides[kMaxDims] = {};
};

/// The rows of one softmax; within a row, elements are dense.
struct SoftmaxRows {
  int64_t columns = 0;
  double scale = 1;
  /// Row r sees its first r % queries + 1 columns; 0 where it sees all.
  int64_t queries = 0;
  const char* input = nullptr;
  int64_t input_stride = 0;
  MaskRows mask;
  char* output = nullptr;  // Dense.
};

/// Those of the backward.
struct SoftmaxBackwardRows {
  int64_t columns = 0;
  double scale = 1;
  int64_t queries = 0;
  const char* grad_output = nullptr;
  int64_t grad_output_stride = 0;
  const char* output = nullptr;
  int64_t output_stride = 0;
  MaskRows mask;               // Of bool.
  char* grad_input = nullptr;  // Dense.
};

}  // namespace scramjet::ops
