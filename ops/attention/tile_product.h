#pragma once

#include <ATen/cpu/vec/vec.h>
#include <c10/macros/Macros.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "ops/vector_pair.h"

/// Products of small matrices that lie in the cache, for the sources of a cpu_kernel.
///
///     // scores [rows, keys] = queries [rows, dim] x keys transposed [dim, keys]
///     multiply<false>(Factor{queries, dim, 1}, keys, keys_padded, scores, keys_padded,
///                     {rows, keys_padded, dim});
namespace scramjet::ops {
namespace CPU_CAPABILITY {

/// The left factor: its element (i, k) stands at data[i * row_step + k * depth_step], so a
/// transposed one needs no copy.
template <typename Number>
struct Factor {
  const Number* data;
  int64_t row_step;
  int64_t depth_step;
};

/// The product has `rows` rows and `columns` columns, sums of `depth` terms.
struct ProductSizes {
  int64_t rows;
  int64_t columns;
  int64_t depth;
};

/// How many sums stay in registers: kTileRows rows of kTileVectors vectors.
#if defined(CPU_CAPABILITY_AVX512)
constexpr size_t kTileRows = 12;
#else
constexpr size_t kTileRows = 6;
#endif
constexpr size_t kTileVectors = 2;

template <typename Number>
constexpr int64_t kTileColumns = kTileVectors* at::vec::Vectorized<Number>::size();

template <bool kAdd, size_t kRows, size_t kVectors, typename Number>
C10_ALWAYS_INLINE void multiply_tile(const Factor<Number>& a, const Number* b, int64_t b_step,
                                     Number* c, int64_t c_step, int64_t depth) {
  using Vec = at::vec::Vectorized<Number>;
  std::array<std::array<Vec, kVectors>, kRows> sums;
  unrolled<kRows>(
      [&](auto i) { unrolled<kVectors>([&](auto v) { sums[i][v] = Vec(Number(0)); }); });
  const Number* left = a.data;
  for (int64_t k = 0; k < depth; ++k, left += a.depth_step, b += b_step) {
    std::array<Vec, kVectors> right;
    unrolled<kVectors>([&](auto v) { right[v] = Vec::loadu(b + v * Vec::size()); });
    unrolled<kRows>([&](auto i) {
      const Vec factor(left[static_cast<int64_t>(i) * a.row_step]);
      unrolled<kVectors>(
          [&](auto v) { sums[i][v] = at::vec::fmadd(factor, right[v], sums[i][v]); });
    });
  }
  unrolled<kRows>([&](auto i) {
    unrolled<kVectors>([&](auto v) {
      Number* to = c + static_cast<int64_t>(i) * c_step + v * Vec::size();
      if constexpr (kAdd) sums[i][v] = sums[i][v] + Vec::loadu(to);
      sums[i][v].store(to);
    });
  });
}

template <bool kAdd, size_t kRows, size_t kVectors, typename Number>
void multiply_rows(Factor<Number> a, const Number* b, int64_t b_step, Number* c, int64_t c_step,
                   int64_t rows, int64_t depth) {
  for (; rows >= static_cast<int64_t>(kRows); rows -= kRows) {
    multiply_tile<kAdd, kRows, kVectors>(a, b, b_step, c, c_step, depth);
    a.data += static_cast<int64_t>(kRows) * a.row_step;
    c += static_cast<int64_t>(kRows) * c_step;
  }
  if constexpr (kRows > 1) {
    if (rows > 0) {
      multiply_rows<kAdd, kRows / 2, kVectors>(a, b, b_step, c, c_step, rows, depth);
    }
  }
}

/// One block of the depth.
template <bool kAdd, typename Number>
void multiply_block(const Factor<Number>& a, const Number* b, int64_t b_step, Number* c,
                    int64_t c_step, const ProductSizes& sizes) {
  constexpr int64_t kVector = at::vec::Vectorized<Number>::size();
  int64_t column = 0;
  for (; column + kTileColumns<Number> <= sizes.columns; column += kTileColumns<Number>) {
    multiply_rows<kAdd, kTileRows, kTileVectors>(a, b + column, b_step, c + column, c_step,
                                                 sizes.rows, sizes.depth);
  }
  for (; column < sizes.columns; column += kVector) {
    multiply_rows<kAdd, kTileRows, 1>(a, b + column, b_step, c + column, c_step, sizes.rows,
                                      sizes.depth);
  }
}

/// c = a b, or c += a b where kAdd is true. Rows of b and c are `b_step` and `c_step` apart, each
/// dense; `columns` is a multiple of the size of a vector.
template <bool kAdd, typename Number>
void multiply(Factor<Number> a, const Number* b, int64_t b_step, Number* c, int64_t c_step,
              const ProductSizes& sizes) {
  constexpr int64_t kDepth = 64;  // Longer sums lose digits.
  for (int64_t k = 0; k == 0 || k < sizes.depth; k += kDepth) {
    const ProductSizes block{sizes.rows, sizes.columns, std::min(kDepth, sizes.depth - k)};
    if (kAdd || k > 0) {
      multiply_block<true>(a, b, b_step, c, c_step, block);
    } else {
      multiply_block<false>(a, b, b_step, c, c_step, block);
    }
    a.data += kDepth * a.depth_step;
    b += kDepth * b_step;
  }
}

}  // namespace CPU_CAPABILITY
}  // namespace scramjet::ops
