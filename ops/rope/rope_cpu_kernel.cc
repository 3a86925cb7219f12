#include "ops/rope/rope_cpu_kernel.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "ops/vector_pair.h"

namespace scramjet::ops {
namespace CPU_CAPABILITY {
namespace {

/// The places of the rows in the input and in the positions, row after row.
class RowWalk {
 public:
  RowWalk(const RopeRows& rows, int64_t row) : rows_(rows) {
    for (int d = rows.dims - 1; d >= 0; --d) {
      place_[d] = row % rows.sizes[d];
      row /= rows.sizes[d];
      input_ += place_[d] * rows.input_strides[d];
      position_ += place_[d] * rows.position_strides[d];
    }
  }

  int64_t input() const { return input_; }
  int64_t position() const {
    return rows_.positions == nullptr ? position_ : rows_.positions[position_];
  }

  void advance() {
    for (int d = rows_.dims - 1; d >= 0; --d) {
      input_ += rows_.input_strides[d];
      position_ += rows_.position_strides[d];
      if (++place_[d] < rows_.sizes[d]) return;
      input_ -= rows_.sizes[d] * rows_.input_strides[d];
      position_ -= rows_.sizes[d] * rows_.position_strides[d];
      place_[d] = 0;
    }
  }

 private:
  const RopeRows& rows_;
  std::array<int64_t, RopeRows::kMaxDims> place_{};
  int64_t input_ = 0;
  int64_t position_ = 0;
};

/// a * b - c * d.
template <typename Vec>
C10_ALWAYS_INLINE Vec difference_of_products(const Vec& a, const Vec& b, const Vec& c,
                                             const Vec& d) {
  return at::vec::fmsub(a, b, c * d);
}

/// a * b + c * d.
template <typename Vec>
C10_ALWAYS_INLINE Vec sum_of_products(const Vec& a, const Vec& b, const Vec& c, const Vec& d) {
  return at::vec::fmadd(a, b, c * d);
}

/// One lane is one pair (a, b).
template <typename Number>
struct Turned {
  Pair<Number> a;
  Pair<Number> b;
};

template <typename Number>
C10_ALWAYS_INLINE Turned<Number> turn(const Pair<Number>& a, const Pair<Number>& b,
                                      const Pair<Number>& cos, const Pair<Number>& sin) {
  return {{difference_of_products(a.low, cos.low, b.low, sin.low),
           difference_of_products(a.high, cos.high, b.high, sin.high)},
          {sum_of_products(b.low, cos.low, a.low, sin.low),
           sum_of_products(b.high, cos.high, a.high, sin.high)}};
}

/// The halves of the rotated elements.
template <typename T>
struct Halves {
  template <typename Tables, typename Count>
  static C10_ALWAYS_INLINE void rotate(const T* x, T* y, int64_t pairs, int64_t i, Count count,
                                       const Tables& cos, const Tables& sin) {
    const auto turned = turn(load_pair(x + i, count), load_pair(x + pairs + i, count), cos, sin);
    store_pair<T>(turned.a, y + i, count);
    store_pair<T>(turned.b, y + pairs + i, count);
  }
};

/// Neighbours.
template <typename T>
struct Interleaved {
  using Number = Compute<T>;

  template <typename Count>
  static C10_ALWAYS_INLINE void rotate(const T* x, T* y, int64_t /*pairs*/, int64_t i, Count count,
                                       const Pair<Number>& cos, const Pair<Number>& sin) {
    const auto [first, second] = split(count);
    const auto front = load_pair(x + 2 * i, first);
    const auto back = load_pair(x + 2 * i + Whole<T>::value, second);
    const auto [a_low, b_low] = at::vec::deinterleave2(front.low, front.high);
    const auto [a_high, b_high] = at::vec::deinterleave2(back.low, back.high);
    const auto turned = turn<Number>({a_low, a_high}, {b_low, b_high}, cos, sin);
    const auto [front_low, front_high] = at::vec::interleave2(turned.a.low, turned.b.low);
    const auto [back_low, back_high] = at::vec::interleave2(turned.a.high, turned.b.high);
    store_pair<T>({front_low, front_high}, y + 2 * i, first);
    store_pair<T>({back_low, back_high}, y + 2 * i + Whole<T>::value, second);
  }

 private:
  /// The elements of `count` pairs, by two vectors and the two after them.
  static C10_ALWAYS_INLINE std::pair<Whole<T>, Whole<T>> split(Whole<T> /*count*/) { return {}; }
  static std::pair<int64_t, int64_t> split(int64_t count) {
    constexpr int64_t kFirst = Whole<T>::value;
    return {std::min(2 * count, kFirst), std::max<int64_t>(2 * count - kFirst, 0)};
  }
};

template <typename T, typename Table, template <typename> class Layout>
void rotate_rows(const RopeRows& rows, int64_t begin, int64_t end) {
  using Number = Compute<T>;
  const auto* input = reinterpret_cast<const T*>(rows.input);
  auto* output = reinterpret_cast<T*>(rows.output);
  const auto* cos_table = reinterpret_cast<const Table*>(rows.cos);
  const auto* sin_table = reinterpret_cast<const Table*>(rows.sin);
  const int64_t pairs = rows.pairs;
  const int64_t rest = rows.head_dim - 2 * pairs;
  const Pair<Number> sign(static_cast<Number>(rows.inverse ? -1 : 1));
  RowWalk walk(rows, begin);
  for (int64_t row = begin; row < end; ++row, walk.advance()) {
    const T* x = input + walk.input();
    T* y = output + row * rows.head_dim;
    const int64_t position = walk.position();
    const Table* cos = cos_table + position * pairs;
    const Table* sin = sin_table + position * pairs;
    for_each_pair<T>(pairs, [&](int64_t i, auto count) {
      Layout<T>::rotate(x, y, pairs, i, count, load_pair(cos + i, count),
                        load_pair(sin + i, count) * sign);
    });
    if (rest > 0) std::memcpy(y + 2 * pairs, x + 2 * pairs, rest * sizeof(T));
  }
}

template <typename T, template <typename> class Layout>
RopeForward* kernel_for_tables(c10::ScalarType tables) {
  if constexpr (at::vec::is_reduced_floating_point_v<T>) {
    if (tables == c10::ScalarType::Float) return rotate_rows<T, float, Layout>;
  }
  return tables == c10::CppTypeToScalarType<T>::value ? rotate_rows<T, T, Layout> : nullptr;
}

template <template <typename> class Layout>
RopeForward* kernel_for(c10::ScalarType dtype, c10::ScalarType tables) {
  switch (dtype) {
    case c10::ScalarType::Float:
      return kernel_for_tables<float, Layout>(tables);
    case c10::ScalarType::Double:
      return kernel_for_tables<double, Layout>(tables);
    case c10::ScalarType::Half:
      return kernel_for_tables<c10::Half, Layout>(tables);
    case c10::ScalarType::BFloat16:
      return kernel_for_tables<c10::BFloat16, Layout>(tables);
    default:
      return nullptr;
  }
}

}  // namespace

RopeForward* rope_rows(c10::ScalarType dtype, c10::ScalarType tables, bool interleaved) {
  return interleaved ? kernel_for<Interleaved>(dtype, tables) : kernel_for<Halves>(dtype, tables);
}

}  // namespace CPU_CAPABILITY
}  // namespace scramjet::ops
