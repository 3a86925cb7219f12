// The expectations are those of custom_function_python_test.py, which checks them on torch.amp's
// decorators.
#include "amp/custom_function.h"

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include <thread>

namespace scramjet::amp {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Seen {
  at::ScalarType a = at::ScalarType::Undefined, b = at::ScalarType::Undefined;
  bool forward_enabled = false, backward_enabled = false;
  at::ScalarType backward_dtype = at::ScalarType::Undefined;
  at::ScalarType product = at::ScalarType::Undefined;  // of a mm in backward
};
Seen seen;

at::Tensor mm_forward(AutogradContext* ctx, const at::Tensor& a, const at::Tensor& b) {
  seen = {.a = a.scalar_type(),
          .b = b.scalar_type(),
          .forward_enabled = at::autocast::is_autocast_enabled(at::kCPU)};
  ctx->save_for_backward({a, b});
  return a.mm(b);
}

variable_list mm_backward(AutogradContext* ctx, const variable_list& grads) {
  seen.backward_enabled = at::autocast::is_autocast_enabled(at::kCPU);
  seen.backward_dtype = at::autocast::get_autocast_dtype(at::kCPU);
  const variable_list saved = ctx->get_saved_variables();
  const at::Tensor grad_a = grads[0].mm(saved[1].t());
  seen.product = grad_a.scalar_type();
  return {grad_a, saved[0].t().mm(grads[0])};
}

template <at::ScalarType cast_inputs>
struct Mm : CustomFunction<Mm<cast_inputs>, at::kCPU, cast_inputs> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& a, const at::Tensor& b) {
    return mm_forward(ctx, a, b);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    return mm_backward(ctx, grads);
  }
};
using PlainMm = Mm<at::ScalarType::Undefined>;
using FloatMm = Mm<at::kFloat>;

at::Tensor leaf(at::ScalarType dtype) { return at::full({2, 2}, 0.5, dtype).requires_grad_(); }

TEST(CustomFunction, WithoutCastForwardAndBackwardRunInTheCallersState) {
  at::Tensor a = leaf(at::kFloat), b = leaf(at::kFloat), y;
  {
    const Autocast autocast(at::kCPU, {.dtype = at::kHalf});
    y = PlainMm::apply(a, b);
  }
  EXPECT_EQ(seen.a, at::kFloat);
  EXPECT_TRUE(seen.forward_enabled);
  EXPECT_EQ(y.scalar_type(), at::kHalf);
  y.sum().backward();
  EXPECT_TRUE(seen.backward_enabled);
  EXPECT_EQ(seen.backward_dtype, at::kHalf);
  EXPECT_EQ(seen.product, at::kHalf);
  EXPECT_EQ(a.grad().scalar_type(), at::kFloat);
  EXPECT_TRUE(at::equal(a.grad(), at::ones({2, 2})));
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
  EXPECT_EQ(at::autocast::get_autocast_dtype(at::kCPU), at::kBFloat16);
}

TEST(CustomFunction, WithCastBothRunWithAutocastOff) {
  at::Tensor a = leaf(at::kBFloat16), b = leaf(at::kFloat), y;
  {
    const Autocast autocast(at::kCPU);
    y = FloatMm::apply(a, b);
    EXPECT_TRUE(at::autocast::is_autocast_enabled(at::kCPU));
  }
  EXPECT_EQ(seen.a, at::kFloat);
  EXPECT_EQ(seen.b, at::kFloat);
  EXPECT_FALSE(seen.forward_enabled);
  EXPECT_EQ(y.scalar_type(), at::kFloat);
  y.sum().backward();
  EXPECT_FALSE(seen.backward_enabled);
  EXPECT_EQ(seen.product, at::kFloat);
  EXPECT_EQ(a.grad().scalar_type(), at::kBFloat16);
  EXPECT_EQ(b.grad().scalar_type(), at::kFloat);
}

TEST(CustomFunction, BackwardInARegionKeepsForwardsState) {
  at::Tensor a = leaf(at::kFloat), b = leaf(at::kFloat);
  for (const bool cast : {false, true}) {
    at::Tensor y = cast ? FloatMm::apply(a, b) : PlainMm::apply(a, b);
    const Autocast autocast(at::kCPU);
    y.sum().backward();
    EXPECT_FALSE(seen.backward_enabled);
    EXPECT_EQ(seen.product, at::kFloat);
  }
}

TEST(CustomFunction, WithoutAutocastNothingIsCast) {
  const at::Tensor a = leaf(at::kBFloat16), b = leaf(at::kBFloat16);
  const at::Tensor y = FloatMm::apply(a, b);
  EXPECT_EQ(seen.a, at::kBFloat16);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  {
    const Autocast outer(at::kCPU);
    const Autocast off(at::kCPU, {.enabled = false});
    FloatMm::apply(a, b);
  }
  EXPECT_EQ(seen.a, at::kBFloat16);
}

TEST(CustomFunction, DoubleIsNotCast) {
  const Autocast autocast(at::kCPU);
  const at::Tensor y = FloatMm::apply(leaf(at::kDouble), leaf(at::kDouble));
  EXPECT_EQ(seen.a, at::kDouble);
  EXPECT_EQ(y.scalar_type(), at::kDouble);
}

TEST(CustomFunction, EachNodeHasItsOwnState) {
  at::Tensor a = leaf(at::kFloat), b = leaf(at::kFloat);
  const at::Tensor outside = PlainMm::apply(a, b);
  const auto inside = [&](at::ScalarType dtype) {
    const Autocast autocast(at::kCPU, {.dtype = dtype});
    return PlainMm::apply(a, b);
  };
  const at::Tensor half = inside(at::kHalf), bfloat16 = inside(at::kBFloat16);
  half.sum().backward();
  EXPECT_EQ(seen.product, at::kHalf);
  outside.sum().backward();
  EXPECT_EQ(seen.product, at::kFloat);
  bfloat16.sum().backward();
  EXPECT_EQ(seen.product, at::kBFloat16);
}

TEST(CustomFunction, BackwardMayRunInAnotherThread) {
  at::Tensor a = leaf(at::kFloat), b = leaf(at::kFloat), y;
  {
    const Autocast autocast(at::kCPU, {.dtype = at::kHalf});
    y = PlainMm::apply(a, b);
  }
  std::thread([&] {
    y.sum().backward();
    EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
  }).join();
  EXPECT_TRUE(seen.backward_enabled);
  EXPECT_EQ(seen.product, at::kHalf);
}

struct Containers : CustomFunction<Containers, at::kCPU, at::kHalf> {
  static constexpr bool is_traceable = true;

  static variable_list forward(AutogradContext*, at::TensorList list,
                               const std::optional<at::Tensor>& some,
                               const std::optional<at::Tensor>& none, int64_t number,
                               const at::Tensor& index) {
    EXPECT_EQ(list.size(), 2);
    for (const at::Tensor& tensor : list) EXPECT_EQ(tensor.scalar_type(), at::kHalf);
    EXPECT_EQ(some->scalar_type(), at::kHalf);
    EXPECT_FALSE(none.has_value());
    EXPECT_EQ(number, 7);
    EXPECT_EQ(index.scalar_type(), at::kLong);
    return {list[0] * 2, list[1] * *some};
  }
  static variable_list backward(AutogradContext*, const variable_list& grads) {
    return {grads[0] * 2, grads[1], {}, {}, {}, {}};
  }
};
static_assert(detail::ScopedFunction<Containers, at::kCPU, at::kHalf>::is_traceable);
static_assert(!detail::ScopedFunction<PlainMm, at::kCPU, at::kHalf>::is_traceable);

TEST(CustomFunction, CastsContainersAndPassesTheRest) {
  const std::vector<at::Tensor> list = {leaf(at::kFloat), leaf(at::kFloat)};
  const Autocast autocast(at::kCPU);
  const std::optional<at::Tensor> some = at::ones({2, 2});
  const variable_list y = Containers::apply(at::TensorList(list), some, std::optional<at::Tensor>(),
                                            int64_t{7}, at::zeros({2}, at::kLong));
  (y[0] + y[1]).sum().backward();
  EXPECT_TRUE(at::equal(list[0].grad(), at::full({2, 2}, 2.0)));
  EXPECT_EQ(list[1].grad().scalar_type(), at::kFloat);
}

struct ByHand : torch::autograd::Function<ByHand> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& a, const at::Tensor& b) {
    const ForwardScope scope(ctx, a.device().type(), at::kFloat);
    return mm_forward(ctx, scope.cast(a), scope.cast(b));
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const BackwardScope scope(ctx);
    return mm_backward(ctx, grads);
  }
};

TEST(CustomFunction, ScopesByHandDoTheSame) {
  at::Tensor a = leaf(at::kBFloat16), y;
  const Autocast autocast(at::kCPU);
  y = ByHand::apply(a, leaf(at::kFloat));
  EXPECT_EQ(seen.a, at::kFloat);
  EXPECT_FALSE(seen.forward_enabled);
  y.sum().backward();
  EXPECT_FALSE(seen.backward_enabled);
  EXPECT_TRUE(at::autocast::is_autocast_enabled(at::kCPU));
}

struct Forgetful : torch::autograd::Function<Forgetful> {
  static at::Tensor forward(AutogradContext*, const at::Tensor& a) { return a * 2; }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const BackwardScope scope(ctx);
    return grads;
  }
};

TEST(CustomFunction, BackwardScopeNeedsAForwardScope) {
  const at::Tensor y = Forgetful::apply(leaf(at::kFloat));
  try {
    y.sum().backward();
    FAIL();
  } catch (const c10::Error& error) {
    EXPECT_NE(error.msg().find("ForwardScope"), std::string::npos) << error.msg();
  }
}

}  // namespace
}  // namespace scramjet::amp
