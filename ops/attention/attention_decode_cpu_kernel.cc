#include <algorithm>
#include <array>

#include "ops/attention/attention_cpu_kernel.h"
#include "ops/attention/attention_output_block.h"
#include "ops/attention/attention_query_block.h"
#include "ops/attention/attention_tiles.h"
#include "ops/attention/tile_product.h"

namespace scramjet::ops {
namespace CPU_CAPABILITY {
namespace {

/// How many products of rows are made at once: more need more registers than there are.
#if defined(CPU_CAPABILITY_AVX512)
constexpr size_t kQueriesAtOnce = 2;
#else
constexpr size_t kQueriesAtOnce = 1;
#endif
constexpr size_t kKeysAtOnce = 4;

/// scores[i * kKeyRows + j] = query i . key j.
template <size_t kQueries, size_t kKeys, typename T>
C10_ALWAYS_INLINE void multiply_rows(const Compute<T>* queries, int64_t query_step, const T* keys,
                                     int64_t key_step, int64_t dim, Compute<T>* scores) {
  std::array<std::array<Pair<Compute<T>>, kKeys>, kQueries> sums;
  for_each_pair<T>(dim, [&](int64_t k, auto count) C10_ALWAYS_INLINE_ATTRIBUTE {
    std::array<Pair<Compute<T>>, kKeys> key;
    unrolled<kKeys>(
        [&](auto j) { key[j] = load_pair(keys + static_cast<int64_t>(j) * key_step + k, count); });
    unrolled<kQueries>([&](auto i) {
      const auto query = load_pair(queries + static_cast<int64_t>(i) * query_step + k, count);
      unrolled<kKeys>([&](auto j) { sums[i][j] = multiply_add(query, key[j], sums[i][j]); });
    });
  });
  unrolled<kQueries>([&](auto i) {
    unrolled<kKeys>(
        [&](auto j) { scores[static_cast<int64_t>(i) * kKeyRows + j] = sum_of_lanes(sums[i][j]); });
  });
}

/// A few queries, whose keys are read once: to pack them would cost more than to multiply them.
template <typename T>
class Decode {
  using Number = Compute<T>;

 public:
  Decode(const AttentionProblem& problem, char* scratch)
      : problem_(problem),
        block_(problem),
        dim_(padded(problem.dim)),
        value_dim_(padded(problem.value_dim)),
        queries_(reinterpret_cast<Number*>(scratch)),
        scores_(queries_ + kQueryRows * dim_),
        values_(scores_ + kQueryRows * kKeyRows),
        output_(problem, values_ + kKeyRows * value_dim_) {}

  /// The keys of one split, which are whole tiles.
  void run(int64_t batch, int64_t key_head, KeyRange keys, Number* partial) {
    block_.move_to(batch, key_head, 0);
    block_.load_queries(queries_);
    output_.clear(block_.row_count());
    const KeyRange visible = block_.visible();
    for (int64_t first = keys.begin; first < keys.end; first += kKeyRows) {
      if (first < visible.end && first + kKeyRows > visible.begin) add_tile(key_head, first);
    }
    for (int64_t i = 0; i < block_.row_count(); ++i, partial += decode_row_size(problem_)) {
      partial[0] = output_.state(i).largest;
      partial[1] = output_.state(i).sum;
      std::copy_n(output_.sums(i), value_dim_, partial + 2);
    }
  }

  /// The results from those of all splits, `split_size` apart.
  void join(int64_t batch, int64_t key_head, int64_t splits, int64_t split_size,
            const Number* partial) {
    block_.move_to(batch, key_head, 0);
    output_.clear(block_.row_count());
    for (int64_t split = 0; split < splits; ++split) {
      for (int64_t i = 0; i < block_.row_count(); ++i) {
        const Number* row = partial + split * split_size + i * decode_row_size(problem_);
        output_.add(i, {row[0], row[1]}, row + 2);
      }
    }
    output_.store(block_);
  }

 private:
  void add_tile(int64_t key_head, int64_t first) {
    const int64_t rows = block_.row_count();
    const KeyRange made = block_.visible_in_tile(first);
    const int64_t keys = made.end - made.begin;
    Number* scores = scores_ + made.begin;
    multiply_keys(row_of<const T>(problem_.key, block_.batch(), key_head, first + made.begin), keys,
                  scores);
    for (int64_t i = 0; i < rows; ++i) {
      const Number scale =
          block_.mask_scores(i, first, made, block_.score_scale(), scores_ + i * kKeyRows);
      output_.weigh(i, scale, scores + i * kKeyRows, padded(keys));
    }
    for (int64_t j = 0; j < keys; ++j) {
      widen_row(row_of<const T>(problem_.value, block_.batch(), key_head, first + made.begin + j),
                values_ + j * value_dim_, problem_.value_dim, value_dim_);
    }
    multiply<true>(Factor<Number>{scores, kKeyRows, 1}, values_, value_dim_, output_.sums(),
                   value_dim_, {rows, value_dim_, keys});
  }

  void multiply_keys(const T* keys, int64_t count, Number* scores) const {
    int64_t j = 0;
    for (; j + static_cast<int64_t>(kKeysAtOnce) <= count; j += kKeysAtOnce) {
      multiply_queries<kKeysAtOnce>(keys + j * problem_.key.row_step, scores + j);
    }
    for (; j < count; ++j) multiply_queries<1>(keys + j * problem_.key.row_step, scores + j);
  }

  template <size_t kKeys>
  void multiply_queries(const T* keys, Number* scores) const {
    const int64_t rows = block_.row_count();
    int64_t i = 0;
    for (; i + static_cast<int64_t>(kQueriesAtOnce) <= rows; i += kQueriesAtOnce) {
      multiply_rows<kQueriesAtOnce, kKeys>(queries_ + i * dim_, dim_, keys, problem_.key.row_step,
                                           problem_.dim, scores + i * kKeyRows);
    }
    for (; i < rows; ++i) {
      multiply_rows<1, kKeys>(queries_ + i * dim_, dim_, keys, problem_.key.row_step, problem_.dim,
                              scores + i * kKeyRows);
    }
  }

  const AttentionProblem& problem_;
  QueryBlock<T> block_;
  int64_t dim_;
  int64_t value_dim_;
  Number* queries_;
  Number* scores_;
  Number* values_;
  OutputBlock<T> output_;
};

template <typename T>
void decode(const AttentionProblem& problem, int64_t begin, int64_t end, int64_t splits,
            char* partial, char* scratch) {
  Decode<T> kernel(problem, scratch);
  const int64_t tiles = tiles_of(problem.keys, kKeyRows);
  for (int64_t i = begin; i < end; ++i) {
    const int64_t key_head = i / splits;
    const int64_t split = i % splits;
    const KeyRange keys{split * tiles / splits * kKeyRows, (split + 1) * tiles / splits * kKeyRows};
    kernel.run(key_head / problem.key_heads, key_head % problem.key_heads, keys,
               reinterpret_cast<Compute<T>*>(partial) + i * decode_partial_size(problem));
  }
}

template <typename T>
void join(const AttentionProblem& problem, int64_t splits, const char* partial, char* scratch) {
  Decode<T> kernel(problem, scratch);
  const int64_t size = decode_partial_size(problem);
  for (int64_t i = 0; i < problem.batch * problem.key_heads; ++i) {
    kernel.join(i / problem.key_heads, i % problem.key_heads, splits, size,
                reinterpret_cast<const Compute<T>*>(partial) + i * splits * size);
  }
}

template <typename T>
constexpr AttentionDecodeCpuKernels kKernels{decode<T>, join<T>};

}  // namespace

AttentionDecodeCpuKernels attention_decode_kernels(c10::ScalarType dtype) {
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
