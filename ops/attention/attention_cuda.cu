#include "ops/attention/attention_cuda_kernel.h"
#include "ops/cuda_kernel_types.cuh"

// The formulas are those of attention_cpu_kernel.cc and attention_backward_cpu_kernel.cc. A block
// owns kTile rows, of queries or of keys, and goes through the other side's rows kTile at a time:
// each warp has kOwn rows of its own, each lane one of the others. Scores stay in registers.
namespace scramjet::ops {
namespace {

constexpr int kWarp = 32;
constexpr int kWarps = 8;
constexpr int kThreads = kWarp * kWarps;
constexpr int kTile = kWarp;
constexpr int kOwn = kTile / kWarps;

/// How many columns of two tiles are in shared memory at once, and how many columns of a result a
/// block makes: any row length works in the same room.
template <typename Number>
constexpr int kChunk = 256 / sizeof(Number);
template <typename Number>
constexpr int kColumns = 512 / sizeof(Number);

/// Rows of one head, of which `count` follow `data`.
template <typename T>
struct TileRows {
  const T* data;
  int64_t step;
  int64_t count;
};

template <typename T>
__device__ T* row_of(const AttentionOperand& x, int64_t batch, int64_t head, int64_t row) {
  return reinterpret_cast<T*>(x.data) + batch * x.batch_step + head * x.head_step +
         row * x.row_step;
}

template <typename T>
__device__ TileRows<T> tile_of(const AttentionOperand& x, int64_t batch, int64_t head,
                               int64_t first, int64_t rows) {
  return {row_of<const T>(x, batch, head, first), x.row_step, rows - first};
}

__device__ int own_row(int i) { return static_cast<int>(threadIdx.x) / kWarp * kOwn + i; }
__device__ int lane() { return static_cast<int>(threadIdx.x) % kWarp; }

__device__ float minus_infinity(float) { return -INFINITY; }
__device__ double minus_infinity(double) { return -INFINITY; }
__device__ float exponential(float x) { return ::expf(x); }
__device__ double exponential(double x) { return ::exp(x); }
__device__ float logarithm(float x) { return ::logf(x); }
__device__ double logarithm(double x) { return ::log(x); }

/// products[i] = the product of this warp's row i of `own` and this lane's row of `other`.
template <typename T, typename Number>
__device__ void multiply_rows(const TileRows<T>& own, const TileRows<T>& other, int64_t dim,
                              Number (&products)[kOwn]) {
  __shared__ Number own_part[kTile][kChunk<Number> + 1];
  __shared__ Number other_part[kTile][kChunk<Number> + 1];
  for (int i = 0; i < kOwn; ++i) products[i] = 0;
  for (int64_t start = 0; start < dim; start += kChunk<Number>) {
    const int count = static_cast<int>(dim - start < kChunk<Number> ? dim - start : kChunk<Number>);
    __syncthreads();  // Whoever still reads the parts before these.
    for (int k = threadIdx.x; k < kTile * kChunk<Number>; k += kThreads) {
      const int row = k / kChunk<Number>;
      const int column = k % kChunk<Number>;
      if (column >= count) continue;
      own_part[row][column] =
          row < own.count ? static_cast<Number>(own.data[row * own.step + start + column]) : 0;
      other_part[row][column] =
          row < other.count ? static_cast<Number>(other.data[row * other.step + start + column])
                            : 0;
    }
    __syncthreads();
    for (int column = 0; column < count; ++column) {
      const Number factor = other_part[lane()][column];
#pragma unroll
      for (int i = 0; i < kOwn; ++i) products[i] += own_part[own_row(i)][column] * factor;
    }
  }
}

/// sums[i][k] += the sum over the lanes of weights[i] times the lane's row of `other`, of which
/// columns [start, start + kColumns) count.
template <typename T, typename Number>
__device__ void add_weighted_rows(const Number (&weights)[kOwn], const TileRows<T>& other,
                                  int64_t start, int64_t dim,
                                  Number (&sums)[kOwn][kColumns<Number> / kWarp]) {
  __shared__ Number part[kTile][kColumns<Number>];
  __syncthreads();
  for (int k = threadIdx.x; k < kTile * kColumns<Number>; k += kThreads) {
    const int row = k / kColumns<Number>;
    const int column = k % kColumns<Number>;
    const bool exists = row < other.count && start + column < dim;
    part[row][column] =
        exists ? static_cast<Number>(other.data[row * other.step + start + column]) : 0;
  }
  __syncthreads();
  for (int j = 0; j < kTile; ++j) {
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const Number weight = __shfl_sync(0xffffffffU, weights[i], j);
#pragma unroll
      for (int k = 0; k < kColumns<Number> / kWarp; ++k) {
        sums[i][k] += weight * part[j][lane() + k * kWarp];
      }
    }
  }
}

template <typename Number>
__device__ Number largest_of_lanes(Number x) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    const Number other = __shfl_xor_sync(0xffffffffU, x, distance);
    x = other > x || other != other ? other : x;  // NaN stays.
  }
  return x;
}

template <typename Number>
__device__ Number sum_of_lanes(Number x) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    x += __shfl_xor_sync(0xffffffffU, x, distance);
  }
  return x;
}

struct KeyRange {
  int64_t begin;
  int64_t end;
};

/// The last sequence that starts at or before query `i`.
__device__ int64_t sequence_of(const AttentionProblem& problem, int64_t i) {
  int64_t first = 0;
  int64_t end = problem.sequences;
  while (end - first > 1) {
    const int64_t middle = (first + end) / 2;
    (problem.query_starts[middle] <= i ? first : end) = middle;
  }
  return first;
}

/// What query `i` sees.
__device__ KeyRange visible_keys(const AttentionProblem& problem, int64_t i) {
  KeyRange own{0, problem.keys};
  int64_t last = problem.queries;
  if (problem.sequences > 0) {
    const int64_t sequence = sequence_of(problem, i);
    own = {problem.key_starts[sequence], problem.key_starts[sequence + 1]};
    last = problem.query_starts[sequence + 1];
  }
  const int64_t diagonal = i + own.end - last;
  const int64_t begin = diagonal - problem.left;
  const int64_t end = diagonal + problem.right + 1;
  return {begin < own.begin ? own.begin : begin, end < own.end ? end : own.end};
}

/// A score from the product of a query and a key: scaled and masked.
template <typename T, typename Number>
__device__ Number score_of(const AttentionProblem& problem, int64_t batch, int64_t head,
                           int64_t query, int64_t key, Number product) {
  const Number hidden = minus_infinity(product);
  if (query >= problem.queries) return hidden;
  const KeyRange visible = visible_keys(problem, query);
  if (key < visible.begin || key >= visible.end) return hidden;
  const Number score = product * static_cast<Number>(problem.scale);
  const AttentionMask& mask = problem.mask;
  const int64_t i = batch * mask.batch_step + head * mask.head_step + query * mask.query_step +
                    key * mask.key_step;
  switch (mask.kind) {
    case AttentionMask::kNone:
      break;
    case AttentionMask::kBool:
      return reinterpret_cast<const bool*>(mask.data)[i] ? score : hidden;
    case AttentionMask::kOwn:
      return score + static_cast<Number>(reinterpret_cast<const T*>(mask.data)[i]);
    case AttentionMask::kFloat:
      return score + static_cast<Number>(reinterpret_cast<const float*>(mask.data)[i]);
  }
  return score;
}

/// Which rows and columns a block has.
struct BlockPlace {
  int64_t batch;
  int64_t head;
  int64_t first;  // Row.
  int64_t start;  // Column.

  template <typename Number>
  static __device__ BlockPlace find(int64_t rows, int64_t heads) {
    const int64_t tiles = (rows + kTile - 1) / kTile;
    const int64_t head = blockIdx.x / tiles;
    return {head / heads, head % heads, blockIdx.x % tiles * kTile,
            static_cast<int64_t>(blockIdx.y) * kColumns<Number>};
  }
};

/// Stores this warp's rows, multiplied by factors[i].
template <typename T, typename Number>
__device__ void store_rows(const AttentionOperand& to, const BlockPlace& place, int64_t rows,
                           int64_t dim, const Number (&factors)[kOwn],
                           const Number (&sums)[kOwn][kColumns<Number> / kWarp]) {
  for (int i = 0; i < kOwn; ++i) {
    const int64_t row = place.first + own_row(i);
    if (row >= rows) continue;
    T* stored = row_of<T>(to, place.batch, place.head, row);
    for (int k = 0; k < kColumns<Number> / kWarp; ++k) {
      const int64_t column = place.start + lane() + k * kWarp;
      if (column < dim) stored[column] = static_cast<T>(sums[i][k] * factors[i]);
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) attention_kernel(AttentionProblem problem) {
  using Number = typename ComputeType<T>::type;
  const BlockPlace place = BlockPlace::find<Number>(problem.queries, problem.heads);
  const int64_t key_head = place.head / problem.group();
  const int64_t last =
      place.first + kTile <= problem.queries ? place.first + kTile - 1 : problem.queries - 1;
  const TileRows<T> queries =
      tile_of<T>(problem.query, place.batch, place.head, place.first, problem.queries);
  Number largest[kOwn];
  Number sum[kOwn];
  Number sums[kOwn][kColumns<Number> / kWarp];
  for (int i = 0; i < kOwn; ++i) {
    largest[i] = minus_infinity(Number());
    sum[i] = 0;
    for (int k = 0; k < kColumns<Number> / kWarp; ++k) sums[i][k] = 0;
  }
  const int64_t begin = visible_keys(problem, place.first).begin / kTile * kTile;
  const int64_t end = visible_keys(problem, last).end;
  for (int64_t first = begin; first < end; first += kTile) {
    Number weights[kOwn];
    multiply_rows(queries, tile_of<T>(problem.key, place.batch, key_head, first, problem.keys),
                  problem.dim, weights);
    for (int i = 0; i < kOwn; ++i) {
      const Number score = score_of<T>(problem, place.batch, place.head, place.first + own_row(i),
                                       first + lane(), weights[i]);
      const Number tile = largest_of_lanes(score);
      const Number now = tile > largest[i] || tile != tile ? tile : largest[i];
      // Against minus infinity, where all is masked, no exponent could be taken.
      const Number shift = now == minus_infinity(now) ? 0 : now;
      weights[i] = exponential(score - shift);
      const Number factor = exponential(largest[i] - shift);
      sum[i] = sum[i] * factor + sum_of_lanes(weights[i]);
      for (int k = 0; k < kColumns<Number> / kWarp; ++k) sums[i][k] *= factor;
      largest[i] = now;
    }
    add_weighted_rows(weights,
                      tile_of<T>(problem.value, place.batch, key_head, first, problem.keys),
                      place.start, problem.value_dim, sums);
  }
  Number factors[kOwn];
  for (int i = 0; i < kOwn; ++i) {
    factors[i] = sum[i] == 0 ? 0 : 1 / sum[i];
    const int64_t query = place.first + own_row(i);
    if (query >= problem.queries || place.start > 0 || lane() > 0) continue;
    auto* logsumexp = reinterpret_cast<Number*>(problem.logsumexp);
    logsumexp[(place.batch * problem.heads + place.head) * problem.queries + query] =
        sum[i] == 0 ? minus_infinity(Number()) : largest[i] + logarithm(sum[i]);
  }
  store_rows<T>(problem.output, place, problem.queries, problem.value_dim, factors, sums);
}

/// A warp for each query.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    delta_kernel(AttentionProblem problem, AttentionGradients gradients) {
  using Number = typename ComputeType<T>::type;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
  if (i >= problem.batch * problem.heads * problem.queries) return;
  const int64_t query = i % problem.queries;
  const int64_t head = i / problem.queries % problem.heads;
  const int64_t batch = i / problem.queries / problem.heads;
  const T* output = row_of<const T>(problem.output, batch, head, query);
  const T* grad_output = row_of<const T>(gradients.grad_output, batch, head, query);
  Number sum = 0;
  for (int64_t k = lane(); k < problem.value_dim; k += kWarp) {
    sum += static_cast<Number>(output[k]) * static_cast<Number>(grad_output[k]);
  }
  sum = sum_of_lanes(sum);
  if (gradients.grad_logsumexp != nullptr) {
    sum -= reinterpret_cast<const Number*>(gradients.grad_logsumexp)[i];
  }
  if (lane() == 0) reinterpret_cast<Number*>(gradients.delta)[i] = sum;
}

/// The weight of a key for a query, and the gradient of their score times the scale, from the
/// products of query and key, and of the query's grad_output and the key's value.
template <typename T, typename Number>
__device__ void differentiate(const AttentionProblem& problem, const AttentionGradients& gradients,
                              int64_t batch, int64_t head, int64_t query, int64_t key,
                              Number product, Number grad_product, Number& weight, Number& slope) {
  weight = 0;
  slope = 0;
  if (query >= problem.queries) return;
  const int64_t i = (batch * problem.heads + head) * problem.queries + query;
  const Number logsumexp = reinterpret_cast<const Number*>(problem.logsumexp)[i];
  // Where all is masked, nothing has a weight.
  const Number shift = logsumexp == minus_infinity(logsumexp) ? 0 : logsumexp;
  weight = exponential(score_of<T>(problem, batch, head, query, key, product) - shift);
  const Number delta = reinterpret_cast<const Number*>(gradients.delta)[i];
  slope = weight * (grad_product - delta) * static_cast<Number>(problem.scale);
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    grad_query_kernel(AttentionProblem problem, AttentionGradients gradients) {
  using Number = typename ComputeType<T>::type;
  const BlockPlace place = BlockPlace::find<Number>(problem.queries, problem.heads);
  const int64_t key_head = place.head / problem.group();
  const int64_t last =
      place.first + kTile <= problem.queries ? place.first + kTile - 1 : problem.queries - 1;
  const TileRows<T> queries =
      tile_of<T>(problem.query, place.batch, place.head, place.first, problem.queries);
  const TileRows<T> grads =
      tile_of<T>(gradients.grad_output, place.batch, place.head, place.first, problem.queries);
  Number sums[kOwn][kColumns<Number> / kWarp] = {};
  const int64_t begin = visible_keys(problem, place.first).begin / kTile * kTile;
  const int64_t end = visible_keys(problem, last).end;
  for (int64_t first = begin; first < end; first += kTile) {
    const TileRows<T> keys = tile_of<T>(problem.key, place.batch, key_head, first, problem.keys);
    Number products[kOwn];
    Number grad_products[kOwn];
    multiply_rows(queries, keys, problem.dim, products);
    multiply_rows(grads, tile_of<T>(problem.value, place.batch, key_head, first, problem.keys),
                  problem.value_dim, grad_products);
    Number slopes[kOwn];
    for (int i = 0; i < kOwn; ++i) {
      Number weight;
      differentiate<T>(problem, gradients, place.batch, place.head, place.first + own_row(i),
                       first + lane(), products[i], grad_products[i], weight, slopes[i]);
    }
    add_weighted_rows(slopes, keys, place.start, problem.dim, sums);
  }
  const Number ones[kOwn] = {1, 1, 1, 1};
  store_rows<T>(gradients.grad_query, place, problem.queries, problem.dim, ones, sums);
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    grad_key_value_kernel(AttentionProblem problem, AttentionGradients gradients) {
  using Number = typename ComputeType<T>::type;
  const BlockPlace place = BlockPlace::find<Number>(problem.keys, problem.key_heads);
  const TileRows<T> keys =
      tile_of<T>(problem.key, place.batch, place.head, place.first, problem.keys);
  const TileRows<T> values =
      tile_of<T>(problem.value, place.batch, place.head, place.first, problem.keys);
  Number key_sums[kOwn][kColumns<Number> / kWarp] = {};
  Number value_sums[kOwn][kColumns<Number> / kWarp] = {};
  for (int64_t member = 0; member < problem.group(); ++member) {
    const int64_t head = place.head * problem.group() + member;
    for (int64_t first = 0; first < problem.queries; first += kTile) {
      const int64_t last =
          first + kTile <= problem.queries ? first + kTile - 1 : problem.queries - 1;
      if (visible_keys(problem, last).end <= place.first ||
          visible_keys(problem, first).begin >= place.first + kTile) {
        continue;
      }
      const TileRows<T> queries =
          tile_of<T>(problem.query, place.batch, head, first, problem.queries);
      const TileRows<T> grads =
          tile_of<T>(gradients.grad_output, place.batch, head, first, problem.queries);
      Number products[kOwn];
      Number grad_products[kOwn];
      multiply_rows(keys, queries, problem.dim, products);
      multiply_rows(values, grads, problem.value_dim, grad_products);
      Number weights[kOwn];
      Number slopes[kOwn];
      for (int i = 0; i < kOwn; ++i) {
        differentiate<T>(problem, gradients, place.batch, head, first + lane(),
                         place.first + own_row(i), products[i], grad_products[i], weights[i],
                         slopes[i]);
      }
      add_weighted_rows(weights, grads, place.start, problem.value_dim, value_sums);
      add_weighted_rows(slopes, queries, place.start, problem.dim, key_sums);
    }
  }
  const Number ones[kOwn] = {1, 1, 1, 1};
  store_rows<T>(gradients.grad_key, place, problem.keys, problem.dim, ones, key_sums);
  store_rows<T>(gradients.grad_value, place, problem.keys, problem.value_dim, ones, value_sums);
}

template <typename Number>
dim3 grid_of(int64_t rows, int64_t heads, int64_t columns) {
  const int64_t tiles = (rows + kTile - 1) / kTile;
  const int64_t chunks = (columns + kColumns<Number> - 1) / kColumns<Number>;
  return dim3(static_cast<unsigned>(tiles * heads), static_cast<unsigned>(chunks < 1 ? 1 : chunks));
}

}  // namespace

void launch_attention(CudaDtype dtype, const AttentionProblem& problem, void* stream) {
  with_cuda_type(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using Number = typename ComputeType<T>::type;
    const dim3 grid =
        grid_of<Number>(problem.queries, problem.batch * problem.heads, problem.value_dim);
    attention_kernel<T><<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(problem);
  });
}

void launch_attention_backward(CudaDtype dtype, const AttentionProblem& problem,
                               const AttentionGradients& gradients, void* stream) {
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  with_cuda_type(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using Number = typename ComputeType<T>::type;
    const int64_t heads = problem.batch * problem.heads;
    const int64_t blocks = (heads * problem.queries + kWarps - 1) / kWarps;
    delta_kernel<T>
        <<<static_cast<unsigned>(blocks), kThreads, 0, cuda_stream>>>(problem, gradients);
    const dim3 query_grid = grid_of<Number>(problem.queries, heads, problem.dim);
    grad_query_kernel<T><<<query_grid, kThreads, 0, cuda_stream>>>(problem, gradients);
    const int64_t columns = problem.dim > problem.value_dim ? problem.dim : problem.value_dim;
    const dim3 key_grid = grid_of<Number>(problem.keys, problem.batch * problem.key_heads, columns);
    grad_key_value_kernel<T><<<key_grid, kThreads, 0, cuda_stream>>>(problem, gradients);
  });
}

}  // namespace scramjet::ops
