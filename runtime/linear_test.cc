#include "runtime/linear.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "runtime/output_memory.h"

namespace scramjet::runtime {
namespace {

// Bits and strides are at::linear's, for every dtype, with a transposed input too.
TEST(Linear, IsATensLinear) {
  for (at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    for (int64_t rows : {0, 1, 3, 700}) {
      const at::Tensor x = at::randn({rows, 40}, dtype), w = at::randn({2000, 40}, dtype),
                       b = at::randn({2000}, dtype);
      for (const auto& bias : {std::optional(b), std::optional<at::Tensor>()}) {
        for (const at::Tensor& input : {x, at::randn({40, rows}, dtype).t(), x.unsqueeze(1)}) {
          const at::Tensor want = at::linear(input, w, bias), got = runtime::linear(input, w, bias);
          EXPECT_TRUE(at::equal(got, want)) << dtype << " " << rows;
          EXPECT_EQ(got.strides(), want.strides());
          EXPECT_EQ(got.scalar_type(), want.scalar_type());
        }
      }
    }
  }
}

TEST(Linear, ALargeResultComesFromKeptMemory) {
  const at::Tensor x = at::randn({1024, 8}), w = at::randn({1024, 8}), b = at::randn({1024});
  empty_output_cache();
  runtime::linear(x, w, b);  // freed at once
  EXPECT_EQ(cached_output_bytes(), int64_t{4} << 20);
  const at::Tensor kept = runtime::linear(x, w, b);
  EXPECT_EQ(cached_output_bytes(), 0);
}

TEST(Linear, GradientsFlow) {
  const at::Tensor x = at::randn({1024, 8}), w = at::randn({1024, 8}).requires_grad_(),
                   b = at::randn({1024});
  runtime::linear(x, w, b).sum().backward();
  EXPECT_TRUE(w.grad().defined());
  const c10::NoGradGuard no_grad;
  EXPECT_FALSE(runtime::linear(x, w, b).requires_grad());
}

TEST(Linear, SaysWhatATenSays) {
  EXPECT_THROW(runtime::linear(at::randn({2, 3}), at::randn({4, 5}), at::randn({4})), c10::Error);
}

}  // namespace
}  // namespace scramjet::runtime
