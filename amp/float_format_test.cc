#include "amp/float_format.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace scramjet::amp {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// For EXPECT: NaNs are equal, and zeros of different signs are not.
bool same(double a, double b) {
  return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
}

std::vector<double> to_vector(const at::Tensor& tensor) {
  const at::Tensor doubles = tensor.to(at::kDouble).contiguous();
  return {doubles.const_data_ptr<double>(), doubles.const_data_ptr<double>() + doubles.numel()};
}

/// The numbers of torch's dtype by code, from 0.
std::vector<double> torch_numbers(at::ScalarType dtype) {
  const bool is_byte = c10::elementSize(dtype) == 1;
  const at::Tensor codes = at::arange(is_byte ? 256 : 65536, at::kInt);
  return to_vector(codes.to(is_byte ? at::kByte : at::kShort).view(dtype));
}

std::vector<double> torch_cast(const std::vector<double>& values, at::ScalarType from,
                               at::ScalarType to) {
  return to_vector(at::tensor(values, at::kDouble).to(from).to(to));
}

/// As torch_cast, where older versions of torch make NaN of what e4m3fn cannot hold.
std::vector<double> saturating_torch_cast(const std::vector<double>& values, at::ScalarType from,
                                          at::ScalarType to) {
  std::vector<double> result = torch_cast(values, from, to);
  if (to != at::kFloat8_e4m3fn || !std::isnan(torch_cast({kInf}, from, to)[0])) return result;
  for (size_t i = 0; i < values.size(); ++i) {
    const bool overflows = !std::isnan(values[i]) && std::isnan(result[i]);
    if (overflows) result[i] = std::copysign(kFloat8E4M3FN.max(), values[i]);
  }
  return result;
}

constexpr at::ScalarType kNarrow[] = {at::kHalf,        at::kBFloat16,        at::kFloat8_e4m3fn,
                                      at::kFloat8_e5m2, at::kFloat8_e4m3fnuz, at::kFloat8_e5m2fnuz};

class NarrowFormat : public testing::TestWithParam<at::ScalarType> {
 protected:
  const FloatFormat format_ = float_format(GetParam()).value();
  const std::vector<double> numbers_ = torch_numbers(GetParam());
};

TEST_P(NarrowFormat, HasTorchsNumberForEveryCode) {
  ASSERT_EQ(numbers_.size(), size_t{1} << format_.bits());
  for (uint64_t code = 0; code < numbers_.size(); ++code) {
    ASSERT_TRUE(same(format_.decode(code), numbers_[code])) << code << ' ' << numbers_[code];
    if (std::isnan(numbers_[code])) {
      ASSERT_TRUE(std::isnan(format_.round(numbers_[code])));
      ASSERT_TRUE(std::isnan(format_.decode(format_.encode(numbers_[code]))));
    } else {
      ASSERT_TRUE(same(format_.round(numbers_[code]), numbers_[code])) << numbers_[code];
      ASSERT_EQ(format_.encode(numbers_[code]), code) << numbers_[code];
    }
  }
}

TEST_P(NarrowFormat, StepsFromEachNumberToTheNext) {
  for (uint64_t code = 0; code + 1 < numbers_.size() / 2; ++code) {
    const double low = numbers_[code], high = numbers_[code + 1];
    if (std::isnan(low) || std::isnan(high)) continue;
    ASSERT_EQ(format_.next_above(low), high);
    ASSERT_EQ(format_.next_below(-low), -high);
    ASSERT_EQ(format_.next_below(high), low);
    ASSERT_EQ(format_.next_above(-high), -low);
    if (std::isinf(high)) continue;
    ASSERT_EQ(format_.spacing(low), high - low);
    ASSERT_EQ(format_.spacing(-low), high - low);
    const double between = low + (high - low) / 4;
    ASSERT_EQ(format_.next_above(between), high);
    ASSERT_EQ(format_.next_below(between), low);
    ASSERT_EQ(format_.next_above(-between), -low);
    ASSERT_EQ(format_.next_below(-between), -high);
    ASSERT_EQ(format_.spacing(between), high - low);
  }
}

/// Each number, the ties between it and the next, and the floats around a tie.
std::vector<double> edges(const std::vector<double>& numbers) {
  std::vector<double> result = {0.0, -0.0, kInf, -kInf, std::nan(""), 1e-45, -1e-45, 3e38, -3e38};
  for (uint64_t code = 0; code + 1 < numbers.size() / 2; ++code) {
    if (!std::isfinite(numbers[code])) continue;
    const double next = std::isfinite(numbers[code + 1])
                            ? numbers[code + 1]
                            : numbers[code] + (numbers[code] - numbers[code - 1]);
    const auto tie = static_cast<float>(numbers[code] + (next - numbers[code]) / 2);
    for (const double magnitude : {static_cast<float>(numbers[code]), tie,
                                   std::nextafter(tie, 0.0f), std::nextafter(tie, HUGE_VALF)}) {
      result.push_back(magnitude);
      result.push_back(-magnitude);
    }
  }
  return result;
}

/// Of all exponents of float, and some that only a double has.
std::vector<double> random_doubles(bool as_floats) {
  std::mt19937_64 generator(0);
  std::uniform_real_distribution<double> mantissa(-1, 1);
  std::uniform_int_distribution<int> exponent(-160, 130);
  std::vector<double> result(200'000);
  for (double& value : result) {
    value = std::ldexp(mantissa(generator), exponent(generator));
    if (as_floats) value = static_cast<float>(value);
  }
  return result;
}

TEST_P(NarrowFormat, RoundsFloatsAsTorchDoes) {
  std::vector<double> values = edges(numbers_);
  for (const double value : random_doubles(/*as_floats=*/true)) values.push_back(value);
  const std::vector<double> expected = saturating_torch_cast(values, at::kFloat, GetParam());
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_TRUE(same(format_.round(values[i]), expected[i]))
        << values[i] << " to " << format_.round(values[i]) << ", torch " << expected[i];
  }
}

TEST_P(NarrowFormat, RoundsDoublesOnceAndTorchTwice) {
  const double tie = 1 + format_.epsilon() / 2;
  std::vector<double> values = {tie, std::nextafter(tie, 2), std::nextafter(tie, 1)};
  for (const double value : random_doubles(/*as_floats=*/false)) values.push_back(value);
  const std::vector<double> expected = saturating_torch_cast(values, at::kDouble, GetParam());
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_TRUE(same(format_.round(static_cast<float>(values[i])), expected[i]))
        << values[i] << ", torch " << expected[i];
  }
  EXPECT_EQ(format_.round(values[1]), 1 + format_.epsilon());
  EXPECT_EQ(expected[1], 1);
}

// By search among all numbers, independent of the arithmetic in round().
TEST_P(NarrowFormat, RoundsDoublesToTheNearest) {
  std::vector<double> finite;
  for (uint64_t code = 0; code < numbers_.size() / 2; ++code) {
    if (std::isfinite(numbers_[code])) finite.push_back(numbers_[code]);
  }
  for (const double value : random_doubles(/*as_floats=*/false)) {
    const double magnitude = std::fabs(value);
    if (magnitude > format_.max()) continue;
    const auto above = std::lower_bound(finite.begin(), finite.end(), magnitude);
    const double high = *above, low = above == finite.begin() ? 0 : *(above - 1);
    const double nearest = high - magnitude < magnitude - low ? high : low;
    ASSERT_EQ(std::fabs(format_.round(value)), nearest) << value;
  }
}

INSTANTIATE_TEST_SUITE_P(All, NarrowFormat, testing::ValuesIn(kNarrow),
                         [](const auto& info) { return std::string(c10::toString(info.param)); });

template <typename T>
void expect_limits(const FloatFormat& format) {
  using Limits = std::numeric_limits<T>;
  SCOPED_TRACE(format.name());
  EXPECT_EQ(format.bits(), static_cast<int>(sizeof(T) * 8));
  EXPECT_EQ(format.mantissa_bits(), Limits::digits - 1);
  if (format.name() != "fp8_e4m3fn") {  // torch says 8 of it, and the largest is 1.75 * 2^8
    EXPECT_EQ(format.max_exponent(), Limits::max_exponent - 1);
  }
  EXPECT_EQ(format.min_exponent(), Limits::min_exponent - 1);
  EXPECT_EQ(format.has_infinity(), Limits::has_infinity);
  EXPECT_EQ(format.max(), static_cast<double>(Limits::max()));
  EXPECT_EQ(format.lowest(), static_cast<double>(Limits::lowest()));
  EXPECT_EQ(format.smallest_normal(), static_cast<double>(Limits::min()));
  EXPECT_EQ(format.smallest_subnormal(), static_cast<double>(Limits::denorm_min()));
  // torch 2.11 says 0.125 of e5m2fnuz, which has two bits of mantissa.
  const auto epsilon = static_cast<double>(Limits::epsilon());
  if (format.name() != "fp8_e5m2fnuz" || epsilon != 0.125) {
    EXPECT_EQ(format.epsilon(), epsilon);
  }
}

TEST(FloatFormat, HasTheLimitsOfCAndTorch) {
  expect_limits<double>(kFloat64);
  expect_limits<float>(kFloat32);
  expect_limits<c10::Half>(kFloat16);
  expect_limits<c10::BFloat16>(kBFloat16);
  expect_limits<c10::Float8_e4m3fn>(kFloat8E4M3FN);
  expect_limits<c10::Float8_e5m2>(kFloat8E5M2);
  expect_limits<c10::Float8_e4m3fnuz>(kFloat8E4M3FNUZ);
  expect_limits<c10::Float8_e5m2fnuz>(kFloat8E5M2FNUZ);
}

TEST(FloatFormat, RoundsDoubleToFloatAsC) {
  for (const double value : random_doubles(/*as_floats=*/false)) {
    const auto expected = static_cast<float>(value);
    ASSERT_TRUE(same(kFloat32.round(value), expected)) << value;
    ASSERT_EQ(kFloat32.encode(value), std::bit_cast<uint32_t>(expected)) << value;
    ASSERT_EQ(kFloat32.next_above(expected), std::nextafter(expected, HUGE_VALF)) << value;
    ASSERT_EQ(kFloat32.next_below(expected), std::nextafter(expected, -HUGE_VALF)) << value;
  }
}

TEST(FloatFormat, KeepsEveryDouble) {
  std::vector<double> values = random_doubles(/*as_floats=*/false);
  using Limits = std::numeric_limits<double>;
  for (const double value : {0.0, Limits::denorm_min(), Limits::min(), Limits::max(), kInf,
                             std::nextafter(Limits::min(), 0.0), 1.0, 2.0}) {
    values.push_back(value);
    values.push_back(-value);
  }
  for (const double value : values) {
    const auto code = std::bit_cast<uint64_t>(value);
    ASSERT_TRUE(same(kFloat64.round(value), value)) << value;
    ASSERT_EQ(kFloat64.encode(value), code) << value;
    ASSERT_TRUE(same(kFloat64.decode(code), value)) << value;
    ASSERT_EQ(kFloat64.next_above(value), value == kInf ? kInf : std::nextafter(value, kInf));
    ASSERT_EQ(kFloat64.next_below(value), std::nextafter(value, -kInf)) << value;
  }
}

TEST(FloatFormat, Tf32KeepsTenMantissaBitsOfAFloat) {
  for (const double value : random_doubles(/*as_floats=*/true)) {
    if (std::fabs(value) > kTF32.max()) continue;
    const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
    const uint32_t rounded = (bits + 0xFFF + ((bits >> 13) & 1)) & ~uint32_t{0x1FFF};
    ASSERT_TRUE(same(kTF32.round(value), std::bit_cast<float>(rounded))) << value;
    ASSERT_EQ(kTF32.encode(value), rounded >> 13) << value;
  }
  EXPECT_EQ(kTF32.bits(), 19);
  EXPECT_EQ(kTF32.epsilon(), kFloat16.epsilon());
  EXPECT_EQ(kTF32.smallest_normal(), kFloat32.smallest_normal());
}

TEST(FloatFormat, AnswersTheHeadersExamples) {
  EXPECT_EQ(kFloat16.max(), 65504);
  for (const double value : {64.0, 100.0, 127.99}) EXPECT_EQ(kFloat16.spacing(value), 0.0625);
  EXPECT_EQ(kFloat16.spacing(63.99), 0.03125);
  EXPECT_EQ(kFloat16.spacing(128), 0.125);
  EXPECT_EQ(kFloat16.round(100.3), 100.3125);
  EXPECT_EQ(kFloat16.next_below(100.3), 100.25);
  EXPECT_EQ(kFloat16.round(70000), kInf);
}

TEST(FloatFormat, OverflowsAsTorchDoes) {
  for (const double value : {1e9, kInf}) {
    EXPECT_EQ(kFloat16.round(-value), -kInf);
    EXPECT_EQ(kFloat8E5M2.round(-value), -kInf);
    EXPECT_EQ(kFloat8E4M3FN.round(-value), -448);
    EXPECT_TRUE(std::isnan(kFloat8E4M3FNUZ.round(-value)));
    EXPECT_TRUE(std::isnan(kFloat8E5M2FNUZ.round(-value)));
  }
  EXPECT_EQ(kFloat16.round(65519), 65504);
  EXPECT_EQ(kFloat16.round(65520), kInf);
}

TEST(FloatFormat, EndsAtMax) {
  for (const FloatFormat& format : float_formats()) {
    SCOPED_TRACE(format.name());
    const double beyond = format.has_infinity() ? kInf : std::nan("");
    EXPECT_TRUE(same(format.next_above(format.max()), beyond));
    EXPECT_TRUE(same(std::fabs(format.next_below(format.lowest())), beyond));
    EXPECT_EQ(format.next_below(kInf), format.max());
    EXPECT_EQ(format.next_above(-kInf), format.lowest());
    EXPECT_TRUE(std::isnan(format.spacing(kInf)));
    EXPECT_TRUE(std::isnan(format.spacing(std::nan(""))));
    EXPECT_TRUE(std::isnan(format.next_above(std::nan(""))));
    EXPECT_TRUE(std::isnan(format.next_below(std::nan(""))));
    EXPECT_EQ(format.next_above(0), format.smallest_subnormal());
    EXPECT_EQ(format.next_below(0), -format.smallest_subnormal());
  }
  EXPECT_TRUE(std::isnan(kFloat16.spacing(1e9)));
  EXPECT_EQ(kFloat16.next_below(1e9), 65504);
}

TEST(FloatFormat, IsFoundByDtype) {
  EXPECT_EQ(float_format(at::kDouble)->name(), "fp64");
  EXPECT_EQ(float_format(at::kFloat)->name(), "fp32");
  EXPECT_FALSE(float_format(at::kInt).has_value());
  EXPECT_EQ(float_formats().size(), 9);
}

}  // namespace
}  // namespace scramjet::amp
