#include "ops/attention/attention_cpu_kernel.h"

#include <algorithm>

#include "ops/attention/attention_output_block.h"
#include "ops/attention/attention_query_block.h"
#include "ops/attention/attention_tiles.h"
#include "ops/attention/tile_product.h"

namespace scramjet::ops {
namespace CPU_CAPABILITY {
namespace {

template <typename T>
void pack(const AttentionProblem& problem, int64_t begin, int64_t end, char* memory) {
  const int64_t tiles = tiles_of(problem.keys, kKeyRows);
  const int64_t value_step = padded(problem.value_dim);
  for (int64_t i = begin; i < end; ++i) {
    const int64_t batch = i / tiles / problem.key_heads;
    const int64_t head = i / tiles % problem.key_heads;
    const int64_t first = i % tiles * kKeyRows;
    const KeyRange keys{first, std::min(first + kKeyRows, problem.keys)};
    auto* packed = reinterpret_cast<Compute<T>*>(memory) + i * packed_tile_size(problem);
    transpose_rows<T>(problem.key, batch, head, keys, problem.dim, packed);
    packed += kKeyRows * problem.dim;
    for (int64_t j = keys.begin; j < keys.end; ++j, packed += value_step) {
      widen_row(row_of<const T>(problem.value, batch, head, j), packed, problem.value_dim,
                value_step);
    }
  }
}

/// One block of queries at a time against all keys that they see.
template <typename T>
class Forward {
  using Number = Compute<T>;

 public:
  Forward(const AttentionProblem& problem, char* scratch)
      : problem_(problem),
        block_(problem),
        queries_(reinterpret_cast<Number*>(scratch)),
        scores_(queries_ + kQueryRows * padded(problem.dim)),
        output_(problem, scores_ + kQueryRows * kKeyRows) {}

  int64_t block_count() const { return block_.block_count(); }

  void run(int64_t batch, int64_t key_head, int64_t block, const Number* packed) {
    block_.move_to(batch, key_head, block);
    block_.load_queries(queries_);
    output_.clear(block_.row_count());
    const KeyRange visible = block_.visible();
    for (int64_t first = visible.begin / kKeyRows * kKeyRows; first < visible.end;
         first += kKeyRows) {
      add_tile(first, packed + first / kKeyRows * packed_tile_size(problem_));
    }
    output_.store(block_);
  }

 private:
  /// The keys from `first` on, those of one tile.
  void add_tile(int64_t first, const Number* packed) {
    const int64_t value_step = padded(problem_.value_dim);
    const int64_t rows = block_.row_count();
    const KeyRange made = block_.visible_in_tile(first);
    const int64_t keys = made.end - made.begin;
    Number* scores = scores_ + made.begin;
    multiply<false>(Factor<Number>{queries_, padded(problem_.dim), 1}, packed + made.begin,
                    kKeyRows, scores, kKeyRows, {rows, padded(keys), problem_.dim});
    for (int64_t i = 0; i < rows; ++i) {
      const Number scale =
          block_.mask_scores(i, first, made, block_.score_scale(), scores_ + i * kKeyRows);
      output_.weigh(i, scale, scores + i * kKeyRows, padded(keys));
    }
    const Number* values = packed + kKeyRows * problem_.dim + made.begin * value_step;
    multiply<true>(Factor<Number>{scores, kKeyRows, 1}, values, value_step, output_.sums(),
                   value_step, {rows, value_step, keys});
  }

  const AttentionProblem& problem_;
  QueryBlock<T> block_;
  Number* queries_;
  Number* scores_;
  OutputBlock<T> output_;
};

template <typename T>
void forward(const AttentionProblem& problem, int64_t begin, int64_t end, const char* packed,
             char* scratch) {
  Forward<T> kernel(problem, scratch);
  const int64_t blocks = kernel.block_count();
  for (int64_t i = begin; i < end; ++i) {
    const int64_t key_head = i / blocks;
    kernel.run(key_head / problem.key_heads, key_head % problem.key_heads, i % blocks,
               reinterpret_cast<const Compute<T>*>(packed) + key_head * packed_head_size(problem));
  }
}

template <typename T>
constexpr AttentionCpuKernels kKernels{pack<T>, forward<T>};

}  // namespace

AttentionCpuKernels attention_kernels(c10::ScalarType dtype) {
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
