#include "ops/loss/loss_cpu_kernel.h"

#include <array>
#include <cmath>
#include <limits>
#include <type_traits>

#include "ops/vector_exp.h"
#include "ops/vector_pair.h"

namespace scramjet::ops {
namespace CPU_CAPABILITY {
namespace {

template <typename T>
T* row_of(const LossMatrix& matrix, int64_t row) {
  return reinterpret_cast<T*>(matrix.data) + row * matrix.stride;
}

/// exp as exactly as a result needs it that is rounded to Stored.
template <typename Stored, typename Number>
C10_ALWAYS_INLINE Pair<Number> exp_of(const Pair<Number>& x) {
  return {vector_exp<Stored>(x.low), vector_exp<Stored>(x.high)};
}

template <typename Number>
C10_ALWAYS_INLINE Pair<Number> larger(const Pair<Number>& a, const Pair<Number>& b) {
  return {at::vec::clamp_min(a.low, b.low), at::vec::clamp_min(a.high, b.high)};
}

/// `x` with minus infinity in the lanes from `count` on.
template <typename Number>
C10_ALWAYS_INLINE Pair<Number> filled(const Pair<Number>& x, Whole<Number> /*count*/) {
  return x;
}

template <typename Number>
Pair<Number> filled(const Pair<Number>& x, int64_t count) {
  using Vec = at::vec::Vectorized<Number>;
  const Vec least(-std::numeric_limits<Number>::infinity());
  const auto [low, high] = split_count<Number>(count);
  return {Vec::set(least, x.low, low), Vec::set(least, x.high, high)};
}

/// The largest element. Of NaN it may see nothing: the sum of exponentials does.
template <typename T>
Compute<T> largest(const T* x, int64_t columns) {
  using Number = Compute<T>;
  using Vec = at::vec::Vectorized<Number>;
  constexpr int64_t kStep = Whole<T>::value;
  constexpr size_t kChains = 4;
  const Pair<Number> least(-std::numeric_limits<Number>::infinity());
  std::array<Pair<Number>, kChains> chains = {least, least, least, least};
  int64_t i = 0;
  for (; i + static_cast<int64_t>(kChains) * kStep <= columns; i += kChains * kStep) {
    unrolled<kChains>(
        [&](auto k) { chains[k] = larger(load_pair(x + i + k * kStep, Whole<T>()), chains[k]); });
  }
  for_each_pair<T>(columns - i, [&](int64_t k, auto count) {
    chains[0] = larger(filled(load_pair(x + i + k, count), count), chains[0]);
  });
  const Pair<Number> all = larger(larger(chains[0], chains[1]), larger(chains[2], chains[3]));
  return at::vec::vec_reduce_all<Number>([](Vec a, Vec b) { return at::vec::clamp_min(a, b); },
                                         at::vec::clamp_min(all.low, all.high));
}

/// A row's log(sum(exp(x))), and the sum of x where it is asked for.
struct RowSums {
  double logsumexp;
  double sum;
};

/// The sum of exp(x - shift), and that of x where it is asked for.
template <typename T, bool kWithSum>
C10_ALWAYS_INLINE std::array<double, kWithSum ? 2 : 1> sums_below(const T* x, int64_t columns,
                                                                  Compute<T> shift) {
  const Pair<Compute<T>> shifts(shift);
  return row_sums < T,
         kWithSum ? 2 : 1 > (columns, [&](int64_t i, auto count, auto& sums) {
                          const auto value = load_pair(x + i, count);
                          sums[0] = sums[0] + masked(exp_of<T>(value - shifts), count);
                          if constexpr (kWithSum) sums[1] = sums[1] + value;
                        });
}

/// The exponentials are summed up relative to some element near the largest: that of the row's
/// beginning, as long as no block shows that there are much larger ones. So an element is read
/// once.
template <typename T, bool kWithSum>
RowSums sums_of_row(const T* x, int64_t columns) {
  using Number = Compute<T>;
  constexpr int64_t kBlock = 8192 / sizeof(T);
  constexpr int64_t kBeginning = 256;
  constexpr double kMuchLarger = 1e6;
  constexpr Number kLeast = -std::numeric_limits<Number>::infinity();
  const auto shift_of = [](Number max) { return max == kLeast ? Number(0) : max; };
  Number max = largest(x, std::min(columns, kBeginning));
  double exponentials = 0;
  double sum = 0;
  for (int64_t begin = 0; begin < columns; begin += kBlock) {
    const T* block = x + begin;
    const int64_t size = std::min(kBlock, columns - begin);
    auto sums = sums_below<T, kWithSum>(block, size, shift_of(max));
    // Nothing but minus infinity yet, a much larger element, or NaN.
    if (C10_UNLIKELY(max == kLeast || !(sums[0] < kMuchLarger))) {
      if (const Number block_max = largest(block, size); block_max > max) {
        exponentials *= std::exp(static_cast<double>(max) - static_cast<double>(block_max));
        max = block_max;
      }
      sums = sums_below<T, kWithSum>(block, size, shift_of(max));
    }
    exponentials += sums[0];
    if constexpr (kWithSum) sum += sums[1];
  }
  return {static_cast<double>(max) + std::log(exponentials), sum};
}

template <typename T>
void loss_of_row(const LossRows& rows, int64_t row) {
  const int64_t target = rows.target[row];
  if (target == rows.ignore_index) {
    rows.loss[row] = rows.logsumexp[row] = 0;
    return;
  }
  const T* x = row_of<const T>(rows.logits, row);
  const bool is_smoothed = rows.label_smoothing != 0;
  const auto [lse, sum] =
      is_smoothed ? sums_of_row<T, true>(x, rows.columns) : sums_of_row<T, false>(x, rows.columns);
  double loss = lse - static_cast<double>(x[target]);
  if (is_smoothed) {
    const double uniform = lse - sum / static_cast<double>(rows.columns);
    loss = (1 - rows.label_smoothing) * loss + rows.label_smoothing * uniform;
  }
  if (rows.z_loss != 0) loss += rows.z_loss * lse * lse;
  rows.loss[row] = loss;
  rows.logsumexp[row] = lse;
}

/// grad (softmax(x) (1 + 2 z_loss lse) - label_smoothing / columns - (1 - label_smoothing) onehot).
template <typename T>
void gradient_of_row(const LossRows& rows, int64_t row) {
  using Number = Compute<T>;
  const int64_t columns = rows.columns;
  T* y = row_of<T>(rows.grad_logits, row);
  if (rows.target[row] == rows.ignore_index) {
    std::fill_n(y, columns, T(0));
    return;
  }
  const T* x = row_of<const T>(rows.logits, row);
  const double lse = rows.logsumexp[row];
  const double grad = rows.grad[row];
  const double slope = rows.z_loss == 0 ? grad : grad * (1 + 2 * rows.z_loss * lse);
  const double uniform = grad * rows.label_smoothing / static_cast<double>(rows.classes);
  const int64_t target = rows.target[row] - rows.first_class;
  const bool has_target = target >= 0 && target < columns;
  const double of_target = has_target ? slope * std::exp(static_cast<double>(x[target]) - lse) -
                                            uniform - grad * (1 - rows.label_smoothing)
                                      : 0;
  // What rounding takes from a large lse goes into the factor.
  const auto rounded = static_cast<Number>(lse);
  const Pair<Number> shift(rounded);
  const Pair<Number> factor(
      static_cast<Number>(slope * std::exp(static_cast<double>(rounded) - lse)));
  const Pair<Number> term(static_cast<Number>(-uniform));
  for_each_pair<T>(columns, [&](int64_t i, auto count) {
    const auto exponential = exp_of<T>(load_pair(x + i, count) - shift);
    store_pair<T>(multiply_add(exponential, factor, term), y + i, count);
  });
  if (has_target) y[target] = static_cast<T>(static_cast<Number>(of_target));
}

template <typename T>
void losses_and_gradients(const LossRows& rows, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    if (rows.loss != nullptr) loss_of_row<T>(rows, row);
    if (rows.grad != nullptr) gradient_of_row<T>(rows, row);
  }
}

}  // namespace

LossKernel* loss_rows(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::Float:
      return losses_and_gradients<float>;
    case c10::ScalarType::Double:
      return losses_and_gradients<double>;
    case c10::ScalarType::Half:
      return losses_and_gradients<c10::Half>;
    case c10::ScalarType::BFloat16:
      return losses_and_gradients<c10::BFloat16>;
    default:
      return nullptr;
  }
}

}  // namespace CPU_CAPABILITY
}  // namespace scramjet::ops
