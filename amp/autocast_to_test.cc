#include "amp/autocast_to.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/runtime/operator.h>

namespace scramjet::amp {
namespace {

at::Tensor ones(at::ScalarType dtype) { return at::ones({2}, dtype); }

TEST(AutocastTo, CastsWhatAutocastCasts) {
  EXPECT_EQ(autocast_to(ones(at::kFloat), at::kCPU, at::kBFloat16).scalar_type(), at::kBFloat16);
  EXPECT_EQ(autocast_to(ones(at::kHalf), at::kCPU, at::kBFloat16).scalar_type(), at::kBFloat16);
  EXPECT_EQ(autocast_to(ones(at::kBFloat16), at::kCPU, at::kFloat).scalar_type(), at::kFloat);
}

TEST(AutocastTo, LeavesTheRestAsItIs) {
  for (at::ScalarType dtype : {at::kDouble, at::kLong, at::kBool, at::kComplexFloat}) {
    const at::Tensor x = ones(dtype);
    EXPECT_TRUE(autocast_to(x, at::kCPU, at::kBFloat16).is_same(x)) << dtype;
  }
  const at::Tensor x = ones(at::kFloat);
  EXPECT_TRUE(autocast_to(x, at::kCPU, at::kFloat).is_same(x));
  EXPECT_TRUE(autocast_to(x, at::kCUDA, at::kBFloat16).is_same(x)) << "another device's region";
  EXPECT_FALSE(autocast_to({}, at::kCPU, at::kBFloat16).defined());
}

TEST(AutocastTo, GradientsComeBackInTheInputsDtype) {
  const at::Tensor x = ones(at::kFloat).requires_grad_();
  autocast_to(x, at::kCPU, at::kBFloat16).sum().backward();
  EXPECT_EQ(x.grad().scalar_type(), at::kFloat);
}

TEST(AutocastTo, TheOperatorChecksItsArguments) {
  const auto op = c10::Dispatcher::singleton()
                      .findSchemaOrThrow("scramjet::autocast_to", "")
                      .typed<at::Tensor(const at::Tensor&, int64_t, at::ScalarType)>();
  EXPECT_EQ(op.call(ones(at::kFloat), 0, at::kHalf).scalar_type(), at::kHalf);
  EXPECT_THROW(op.call(ones(at::kFloat), 7, at::kHalf), c10::ValueError);
  EXPECT_THROW(op.call(ones(at::kFloat), 0, at::kLong), c10::ValueError);
}

// The passes ask the schema whether it writes.
TEST(AutocastTo, TorchScriptSeesAViewNotAWrite) {
  for (const auto& op :
       torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString("scramjet::autocast_to"))) {
    EXPECT_EQ(op->aliasAnalysisKind(), c10::AliasAnalysisKind::FROM_SCHEMA);
    EXPECT_FALSE(op->schema().is_mutable());
    EXPECT_NE(op->schema().returns()[0].alias_info(), nullptr);
  }
}

}  // namespace
}  // namespace scramjet::amp
