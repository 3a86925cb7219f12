#include "ops/attention/attention_cpu_kernel.h"

#include <array>

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
        // What is not positive would turn the order of the scores.
        query_scale_(problem.scale > 0 ? 1 : static_cast<Number>(problem.scale)),
        score_scale_(problem.scale > 0 ? static_cast<Number>(problem.scale) : 1),
        queries_(reinterpret_cast<Number*>(scratch)),
        scores_(queries_ + kQueryRows * padded(problem.dim)),
        sums_(scores_ + kQueryRows * kKeyRows) {}

  int64_t block_count() const { return block_.block_count(); }

  void run(int64_t batch, int64_t key_head, int64_t block, const Number* packed) {
    block_.move_to(batch, key_head, block);
    block_.load_rows(problem_.query, problem_.dim, queries_);
    if (query_scale_ != 1) multiply_row(queries_, query_scale_, kQueryRows * padded(problem_.dim));
    std::fill(sums_, sums_ + block_.row_count() * padded(problem_.value_dim), Number(0));
    states_.fill({});
    const KeyRange visible = block_.visible();
    for (int64_t first = visible.begin / kKeyRows * kKeyRows; first < visible.end;
         first += kKeyRows) {
      add_tile(first, packed + first / kKeyRows * packed_tile_size(problem_));
    }
    store_results();
  }

 private:
  /// The keys from `first` on, those of one tile.
  void add_tile(int64_t first, const Number* packed) {
    const int64_t value_step = padded(problem_.value_dim);
    const int64_t rows = block_.row_count();
    const auto [begin, end] = block_.visible_in_tile(first);
    multiply<false>(Factor<Number>{queries_, padded(problem_.dim), 1}, packed + begin, kKeyRows,
                    scores_ + begin, kKeyRows, {rows, padded(end - begin), problem_.dim});
    for (int64_t i = 0; i < rows; ++i) add_scores(i, first, {begin, end});
    const Number* values = packed + kKeyRows * problem_.dim;
    multiply<true>(Factor<Number>{scores_ + begin, kKeyRows, 1}, values + begin * value_step,
                   value_step, sums_, value_step, {rows, value_step, end - begin});
  }

  /// Turns row i of the scores, of which `made` were computed, into its part of the softmax.
  void add_scores(int64_t i, int64_t first, KeyRange made) {
    Number* row = scores_ + i * kKeyRows;
    const Number scale = block_.mask_scores(i, first, made, score_scale_, row);
    const int64_t count = padded(made.end - made.begin);
    const Number tile = largest(row + made.begin, count) * scale;
    RowState<Number>& state = states_[i];
    const Number now = tile > state.largest || std::isnan(tile) ? tile : state.largest;
    // Against minus infinity, where all is masked, no exponent could be taken.
    const Number shift = now == kMinusInfinity<Number> ? 0 : now;
    const Number sum = exponentiate<T>(scale, shift, row + made.begin, count);
    if (now != state.largest) {
      const Number factor = std::exp(state.largest - shift);
      state.sum *= factor;
      multiply_row(sums_ + i * padded(problem_.value_dim), factor, padded(problem_.value_dim));
    }
    state = {now, state.sum + sum};
  }

  void store_results() {
    auto* logsumexp = reinterpret_cast<Number*>(problem_.logsumexp);
    for (int64_t i = 0; i < block_.row_count(); ++i) {
      const auto [head, query] = block_.position(i);
      const auto [largest, sum] = states_[i];
      narrow_row(sums_ + i * padded(problem_.value_dim),
                 row_of<T>(problem_.output, block_.batch(), head, query), sum == 0 ? 0 : 1 / sum,
                 problem_.value_dim);
      logsumexp[block_.flat_position(i)] =
          sum == 0 ? kMinusInfinity<Number> : largest + std::log(sum);
    }
  }

  const AttentionProblem& problem_;
  QueryBlock<T> block_;
  Number query_scale_;
  Number score_scale_;
  Number* queries_;
  Number* scores_;
  Number* sums_;  // Of the values, weighted.
  std::array<RowState<Number>, kQueryRows> states_;
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
