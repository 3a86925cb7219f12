#pragma once

#include <cstdint>

/// What the kernels of the losses are told, on CPU and CUDA: pointers and sizes.
namespace scramjet::ops {

/// A matrix by its rows, each dense; `stride` elements lie between the starts of two.
struct LossMatrix {
  char* data = nullptr;
  int64_t stride = 0;
};

/// The operands over each row. With `loss` the losses and logsumexp are computed, then with `grad`
/// the gradients; without `loss`, logsumexp is read.
struct LossRows {
  int64_t columns = 0;
  /// The gradients may be those of a part of the classes: of `columns`, from `first_class` on.
  int64_t classes = 0;
  int64_t first_class = 0;
  int64_t ignore_index = 0;
  double label_smoothing = 0;
  double z_loss = 0;
  LossMatrix logits;
  const int64_t* target = nullptr;
  double* loss = nullptr;
  double* logsumexp = nullptr;
  const double* grad = nullptr;  // Of each row's loss.
  LossMatrix grad_logits;        // May be `logits`.
};

}  // namespace scramjet::ops
