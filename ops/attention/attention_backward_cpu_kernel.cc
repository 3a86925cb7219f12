#include <algorithm>
#include <utility>

#include "ops/attention/attention_cpu_kernel.h"
#include "ops/attention/attention_query_block.h"
#include "ops/attention/attention_tiles.h"
#include "ops/attention/tile_product.h"

namespace scramjet::ops {
namespace CPU_CAPABILITY {
namespace {

/// The backward of Dao 2023 (FlashAttention-2), algorithm 2: the tiles of keys in turn, each
/// against all queries that see it. The scores are computed anew.
template <typename T>
class Backward {
  using Number = Compute<T>;

 public:
  Backward(const AttentionProblem& problem, const AttentionGradients& gradients, char* scratch)
      : problem_(problem),
        gradients_(gradients),
        block_(problem),
        dim_(padded(problem.dim)),
        value_dim_(padded(problem.value_dim)),
        scale_(static_cast<Number>(problem.scale)) {
    auto* memory = reinterpret_cast<Number*>(scratch);
    const auto take = [&](int64_t size) { return std::exchange(memory, memory + size); };
    keys_ = take(kKeyRows * dim_);
    transposed_keys_ = take(kKeyRows * dim_);
    transposed_values_ = take(kKeyRows * value_dim_);
    grad_keys_ = take(kKeyRows * dim_);
    grad_values_ = take(kKeyRows * value_dim_);
    queries_ = take(kQueryRows * dim_);
    grad_outputs_ = take(kQueryRows * value_dim_);
    scores_ = take(kQueryRows * kKeyRows);
    grad_scores_ = take(kQueryRows * kKeyRows);
  }

  /// The keys from `first` on, those of one tile; adds to `grad_queries`, [heads, queries, dim_]
  /// for each batch.
  void run(int64_t batch, int64_t key_head, int64_t first, Number* grad_queries) {
    const KeyRange keys{first, std::min(first + kKeyRows, problem_.keys)};
    load_keys(batch, key_head, keys);
    for (int64_t i = 0; i < block_.block_count(); ++i) {
      if (!block_.sees(i, keys)) continue;
      block_.move_to(batch, key_head, i);
      const KeyRange made = block_.visible_in_tile(first);
      if (made.begin < made.end) add_block(first, made, grad_queries);
    }
    for (int64_t j = keys.begin; j < keys.end; ++j) {
      const int64_t i = j - first;
      narrow_row(grad_keys_ + i * dim_, row_of<T>(gradients_.grad_key, batch, key_head, j),
                 Number(1), problem_.dim);
      narrow_row(grad_values_ + i * value_dim_,
                 row_of<T>(gradients_.grad_value, batch, key_head, j), Number(1),
                 problem_.value_dim);
    }
  }

 private:
  void load_keys(int64_t batch, int64_t key_head, KeyRange keys) {
    transpose_rows<T>(problem_.key, batch, key_head, keys, problem_.dim, transposed_keys_);
    transpose_rows<T>(problem_.value, batch, key_head, keys, problem_.value_dim,
                      transposed_values_);
    for (int64_t j = keys.begin; j < keys.end; ++j) {
      widen_row(row_of<const T>(problem_.key, batch, key_head, j), keys_ + (j - keys.begin) * dim_,
                problem_.dim, dim_);
    }
    std::fill(grad_keys_, grad_keys_ + kKeyRows * dim_, Number(0));
    std::fill(grad_values_, grad_values_ + kKeyRows * value_dim_, Number(0));
  }

  /// One block of queries: with p = exp(scores - logsumexp), the gradient of the values is
  /// p^T grad_output, that of the scores s = p (grad_output value^T - delta), that of the queries
  /// s key and that of the keys s^T query, each times the scale.
  void add_block(int64_t first, KeyRange made, Number* grad_queries) {
    const int64_t rows = block_.row_count();
    const auto [begin, end] = made;
    const int64_t keys = end - begin;
    block_.load_rows(problem_.query, problem_.dim, queries_);
    block_.load_rows(gradients_.grad_output, problem_.value_dim, grad_outputs_);
    multiply<false>(Factor<Number>{queries_, dim_, 1}, transposed_keys_ + begin, kKeyRows,
                    scores_ + begin, kKeyRows, {rows, padded(keys), problem_.dim});
    for (int64_t i = 0; i < rows; ++i) make_weights(i, first, made);
    multiply<true>(Factor<Number>{scores_ + begin, 1, kKeyRows}, grad_outputs_, value_dim_,
                   grad_values_ + begin * value_dim_, value_dim_, {keys, value_dim_, rows});
    multiply<false>(Factor<Number>{grad_outputs_, value_dim_, 1}, transposed_values_ + begin,
                    kKeyRows, grad_scores_ + begin, kKeyRows,
                    {rows, padded(keys), problem_.value_dim});
    for (int64_t i = 0; i < rows; ++i) make_grad_scores(i, made);
    multiply<true>(Factor<Number>{grad_scores_ + begin, 1, kKeyRows}, queries_, dim_,
                   grad_keys_ + begin * dim_, dim_, {keys, dim_, rows});
    // Rows of one head follow each other in the sums too.
    for (int64_t i = 0; i < rows;) {
      const auto [head, query] = block_.position(i);
      const int64_t count = std::min(rows - i, problem_.queries - query);
      multiply<true>(Factor<Number>{grad_scores_ + i * kKeyRows + begin, kKeyRows, 1},
                     keys_ + begin * dim_, dim_, grad_queries + block_.flat_position(i) * dim_,
                     dim_, {count, dim_, keys});
      i += count;
    }
  }

  void make_weights(int64_t i, int64_t first, KeyRange made) {
    Number* row = scores_ + i * kKeyRows;
    const Number scale = block_.mask_scores(i, first, made, scale_, row);
    const Number sum = reinterpret_cast<const Number*>(problem_.logsumexp)[block_.flat_position(i)];
    // Where all is masked, nothing has a weight.
    const Number shift = sum == kMinusInfinity<Number> ? 0 : sum;
    exponentiate<T>(scale, shift, row + made.begin, padded(made.end - made.begin));
  }

  void make_grad_scores(int64_t i, KeyRange made) {
    using Vec = at::vec::Vectorized<Number>;
    const Vec delta(reinterpret_cast<const Number*>(gradients_.delta)[block_.flat_position(i)]);
    const Vec scale(scale_);
    const Number* weights = scores_ + i * kKeyRows;
    Number* grads = grad_scores_ + i * kKeyRows;
    const int64_t stop = made.begin + padded(made.end - made.begin);
    for (int64_t j = made.begin; j < stop; j += Vec::size()) {
      const Vec grad = Vec::loadu(grads + j) - delta;
      (Vec::loadu(weights + j) * grad * scale).store(grads + j);
    }
  }

  const AttentionProblem& problem_;
  const AttentionGradients& gradients_;
  QueryBlock<T> block_;
  int64_t dim_;
  int64_t value_dim_;
  Number scale_;
  Number* keys_;
  Number* transposed_keys_;
  Number* transposed_values_;
  Number* grad_keys_;
  Number* grad_values_;
  Number* queries_;
  Number* grad_outputs_;
  Number* scores_;
  Number* grad_scores_;
};

template <typename T>
void backward(const AttentionProblem& problem, const AttentionGradients& gradients,
              int64_t key_head, int64_t part, int64_t parts, char* grad_queries, char* scratch) {
  Backward<T> kernel(problem, gradients, scratch);
  for (int64_t first = part * kKeyRows; first < problem.keys; first += parts * kKeyRows) {
    kernel.run(key_head / problem.key_heads, key_head % problem.key_heads, first,
               reinterpret_cast<Compute<T>*>(grad_queries));
  }
}

/// sum(grad_output * output) - grad_logsumexp of each query.
template <typename T>
void make_delta(const AttentionProblem& problem, const AttentionGradients& gradients, int64_t begin,
                int64_t end) {
  using Number = Compute<T>;
  const auto* grad_logsumexp = reinterpret_cast<const Number*>(gradients.grad_logsumexp);
  for (int64_t i = begin; i < end; ++i) {
    const int64_t query = i % problem.queries;
    const int64_t head = i / problem.queries % problem.heads;
    const int64_t batch = i / problem.queries / problem.heads;
    const T* output = row_of<const T>(problem.output, batch, head, query);
    const T* grad_output = row_of<const T>(gradients.grad_output, batch, head, query);
    const auto [sum] = row_sums<T, 1>(problem.value_dim, [&](int64_t k, auto count, auto& sums) {
      sums[0] =
          multiply_add(load_pair(output + k, count), load_pair(grad_output + k, count), sums[0]);
    });
    reinterpret_cast<Number*>(gradients.delta)[i] = static_cast<Number>(
        sum - (grad_logsumexp == nullptr ? 0 : static_cast<double>(grad_logsumexp[i])));
  }
}

/// Rounds the gradients of queries [begin, end), after adding those of all parts.
template <typename T>
void store_grad_queries(const AttentionProblem& problem, const AttentionGradients& gradients,
                        int64_t begin, int64_t end, int64_t parts, char* grad_queries) {
  using Number = Compute<T>;
  const int64_t dim = padded(problem.dim);
  const int64_t rows = problem.batch * problem.heads * problem.queries;
  auto* sums = reinterpret_cast<Number*>(grad_queries);
  for (int64_t i = begin; i < end; ++i) {
    Number* sum = sums + i * dim;
    for (int64_t part = 1; part < parts; ++part) {
      const Number* other = sum + part * rows * dim;
      for (int64_t k = 0; k < dim; ++k) sum[k] += other[k];
    }
    narrow_row(sum,
               row_of<T>(gradients.grad_query, i / problem.queries / problem.heads,
                         i / problem.queries % problem.heads, i % problem.queries),
               Number(1), problem.dim);
  }
}

template <typename T>
constexpr AttentionBackwardCpuKernels kKernels{make_delta<T>, backward<T>, store_grad_queries<T>};

}  // namespace

AttentionBackwardCpuKernels attention_backward_kernels(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::Float:
      return kKernels<float>;
    case c10::ScalarType::Double:
      return kKernels<double>;
    case c10::ScalarType::Half:
      return kKernels<c10::Half>;
    case c10::ScalarType::BFloat16:
      return kKernels<c10::BFloat16>;
    default:
      return {};
  }
}

}  // namespace CPU_CAPABILITY
}  // namespace scramjet::ops
