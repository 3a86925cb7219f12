#include "amp/value_range.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ldexp.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace scramjet::amp {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr float kInfFloat = std::numeric_limits<float>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

ValueRange range_of(const at::Tensor& values, const FloatFormat& format = kFloat16) {
  ValueRange range(format);
  range.add(values);
  return range;
}

int64_t count(const at::Tensor& mask) { return mask.sum().item<int64_t>(); }

/// Of every magnitude that a float has, ties and neighbours of the formats' limits too.
at::Tensor floats() {
  const at::Tensor random = at::ldexp(at::randn(50000), at::randint(-160, 127, 50000));
  std::vector<float> edges;
  for (const double edge : {65504., 65520., std::ldexp(1., -14), std::ldexp(1., -24),
                            std::ldexp(1., -25), std::ldexp(1., -126), std::ldexp(1., -133),
                            std::ldexp(1., -134), 3.3895313892515355e38, 3.3961775292304e38}) {
    const auto value = static_cast<float>(edge);
    for (const float near : {std::nextafter(value, 0.f), value, std::nextafter(value, kInfFloat)}) {
      edges.push_back(near);
      edges.push_back(-near);
    }
  }
  return at::cat({random, at::tensor(edges)});
}

class RangeInFormat : public testing::TestWithParam<at::ScalarType> {};

TEST_P(RangeInFormat, CountsWhatTorchsCastDoes) {
  const at::Tensor values = floats();
  const at::Tensor cast = values.to(GetParam()).to(at::kFloat);
  const FloatFormat format = *float_format(GetParam());
  const ValueRange range = range_of(values, format);
  const at::Tensor finite = values.isfinite();
  EXPECT_EQ(range.count(), values.numel());
  EXPECT_EQ(range.overflowed(), count(cast.isinf().logical_and(finite)));
  EXPECT_EQ(range.flushed(), count(cast.eq(0).logical_and(values.ne(0))));
  EXPECT_EQ(range.subnormal(),
            count(cast.ne(0).logical_and(cast.abs().to(at::kDouble).lt(format.smallest_normal()))));
  EXPECT_GT(range.overflowed(), 3);
  EXPECT_GT(range.flushed(), 5);
  EXPECT_GT(range.subnormal(), 5);
}

INSTANTIATE_TEST_SUITE_P(Formats, RangeInFormat, testing::Values(at::kHalf, at::kBFloat16));

TEST(ValueRange, CountsByPowersOfTwo) {
  const ValueRange range = range_of(at::tensor({1., 1.5, -1.75, 0.25, 1e-300, -8.}, at::kDouble));
  const std::map<int, int64_t> want = {{-997, 1}, {-2, 1}, {0, 3}, {3, 1}};
  EXPECT_EQ(range.exponents(), want);
  EXPECT_EQ(range.largest(), 8);
  EXPECT_EQ(range.smallest(), 1e-300);
}

TEST(ValueRange, WhatIsNotAFiniteNumberHasNoMagnitude) {
  const ValueRange range = range_of(at::tensor({0., -0., kInf, -kInf, kNaN, 2.}, at::kDouble));
  EXPECT_EQ(range.count(), 6);
  EXPECT_EQ(range.zeros(), 2);
  EXPECT_EQ(range.infinities(), 2);
  EXPECT_EQ(range.nans(), 1);
  EXPECT_EQ(range.overflowed(), 0);
  EXPECT_EQ(range.exponents(), (std::map<int, int64_t>{{1, 1}}));
}

TEST(ValueRange, EmptyIsAllZero) {
  const ValueRange range = range_of(at::empty({0, 3}));
  EXPECT_EQ(range.count(), 0);
  EXPECT_EQ(range.largest(), 0);
  EXPECT_EQ(range.smallest(), 0);
  EXPECT_TRUE(range.exponents().empty());
}

TEST(ValueRange, AddsUp) {
  ValueRange range(kFloat16);
  range.add(at::tensor({1., 1e6}, at::kDouble));
  range.add(at::tensor({3., 1e-9}, at::kDouble));
  EXPECT_EQ(range.count(), 4);
  EXPECT_EQ(range.overflowed(), 1);
  EXPECT_EQ(range.flushed(), 1);
  EXPECT_EQ(range.largest(), 1e6);
  EXPECT_EQ(range.smallest(), 1e-9);
}

TEST(ValueRange, AnyDtypeAndStrides) {
  const at::Tensor values = at::randn({7, 9});
  for (const at::ScalarType dtype : {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble}) {
    const at::Tensor typed = values.to(dtype);
    EXPECT_EQ(range_of(typed.t()).exponents(), range_of(typed).exponents());
    EXPECT_EQ(range_of(typed.slice(1, 0, 9, 2)).count(), 35);
  }
}

TEST(ValueRange, AScaleSavesSmallNumbers) {
  const ValueRange range = range_of(at::tensor({1.5 * std::ldexp(1., -30), 1.}, at::kDouble));
  EXPECT_EQ(range.flushed(), 1);
  EXPECT_EQ(range.flushed_at(0), 1);
  EXPECT_EQ(range.flushed_at(4), 1);  // 1.5 * 2^-26
  EXPECT_EQ(range.flushed_at(5), 0);  // 1.5 * 2^-25 rounds to 2^-24
}

TEST(ValueRange, RefusesIntegers) {
  EXPECT_THROW(range_of(at::randint(0, 5, {3}, at::kLong)), c10::TypeError);
}

}  // namespace
}  // namespace scramjet::amp
