#pragma once

#include <cstdint>
#include <optional>

namespace scramjet::ops {

/// Which keys a query sees, and how much their scores weigh (ops/attention/attention.h).
struct AttentionOptions {
  /// What scores are multiplied by; nullopt is 1 / sqrt(dim).
  std::optional<double> scale = std::nullopt;

  /// Whether a query sees no key behind its own position. The last query stands at the last key,
  /// as in decoding with a cache; scaled_dot_product_attention sets the first to the first.
  bool causal = false;

  /// How many keys a query sees before and behind its own position; nullopt is all (Beltagy et al.
  /// 2020, "Longformer", arXiv:2004.05150).
  std::optional<int64_t> window_left = std::nullopt;
  std::optional<int64_t> window_right = std::nullopt;
};

}  // namespace scramjet::ops
