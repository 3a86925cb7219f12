// Between dtypes: half and bfloat16 on all their bit patterns, casts against at::Tensor::to.

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/stack.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "codegen/cpu/kernel_runner.h"

namespace scramjet::codegen::cpu {
namespace {

constexpr at::ScalarType kRegisterTypes[] = {at::kFloat, at::kDouble, at::kChar, at::kByte,
                                             at::kShort, at::kInt,    at::kLong, at::kBool};

at::Tensor tensor_of(const Array& array) {
  const auto size = static_cast<int64_t>(array.bytes.size() / c10::elementSize(array.type));
  return at::from_blob(const_cast<char*>(array.bytes.data()), {size},
                       at::TensorOptions().dtype(array.type))
      .clone();
}

Array array_of(const at::Tensor& tensor) {
  const char* data = static_cast<const char*>(tensor.const_data_ptr());
  return {tensor.scalar_type(), std::vector<char>(data, data + tensor.nbytes())};
}

std::vector<uint16_t> all_patterns() {
  std::vector<uint16_t> patterns(65536);
  for (size_t k = 0; k < patterns.size(); ++k) patterns[k] = static_cast<uint16_t>(k);
  return patterns;
}

ScalarProgram copy_program(at::ScalarType from, at::ScalarType to) {
  ScalarBuilder b({from});
  b.store(b.cast(b.load(0), register_type(to)), to);
  return b.finish();
}

// NaNs equal NaNs; all else to the bit.
template <typename Bits>
bool same(Bits a, Bits b, Bits infinity) {
  const Bits magnitude = static_cast<Bits>(~(Bits{1} << (8 * sizeof(Bits) - 1)));
  return a == b || ((a & magnitude) > infinity && (b & magnitude) > infinity);
}

template <typename Narrow>
void check_narrow(at::ScalarType type, uint16_t infinity) {
  const auto patterns = all_patterns();
  std::vector<float> wide(patterns.size());
  for (size_t k = 0; k < patterns.size(); ++k) wide[k] = std::bit_cast<Narrow>(patterns[k]);
  // Each value, its neighbours, and the midpoints to the next value with theirs: every rounding
  // decision.
  std::vector<float> between;
  for (size_t k = 0; k < wide.size(); ++k) {
    const float middle = (wide[k] + (k + 1 < wide.size() ? wide[k + 1] : wide[k])) / 2;
    for (float value : {wide[k], middle}) {
      between.insert(between.end(),
                     {value, std::nextafter(value, INFINITY), std::nextafter(value, -INFINITY)});
    }
  }
  for (Target target : targets()) {
    const auto size = static_cast<int64_t>(patterns.size());
    const auto widened =
        run(copy_program(type, at::kFloat), {Array::of(type, patterns)}, size, target)[0]
            .as<uint32_t>();
    const auto copied =
        run(copy_program(type, type), {Array::of(type, patterns)}, size, target)[0].as<uint16_t>();
    for (size_t k = 0; k < patterns.size(); ++k) {
      ASSERT_TRUE(same(widened[k], std::bit_cast<uint32_t>(wide[k]), 0x7f800000u))
          << name_of(target) << ", pattern " << k;
      ASSERT_TRUE(same(copied[k], patterns[k], infinity)) << name_of(target) << ", pattern " << k;
    }
    const auto count = static_cast<int64_t>(between.size());
    const auto narrowed =
        run(copy_program(at::kFloat, type), {Array::of(at::kFloat, between)}, count, target)[0]
            .as<uint16_t>();
    for (size_t k = 0; k < between.size(); ++k) {
      const auto expected = std::bit_cast<uint16_t>(Narrow(between[k]));
      ASSERT_TRUE(same(narrowed[k], expected, infinity))
          << name_of(target) << ", of " << between[k] << " got " << narrowed[k];
    }
  }
}

TEST(Conversion, EveryHalf) { check_narrow<at::Half>(at::kHalf, 0x7c00); }
TEST(Conversion, EveryBFloat16) { check_narrow<at::BFloat16>(at::kBFloat16, 0x7f80); }

// ATen's NaN: 0x7fc0, whatever the NaN was.
TEST(Conversion, BFloat16NaN) {
  std::vector<uint32_t> nans{0x7f800001, 0x7fc00000, 0x7fffffff, 0xff800001, 0xffffffff};
  for (Target target : targets()) {
    const auto result = run(copy_program(at::kFloat, at::kBFloat16), {Array::of(at::kFloat, nans)},
                            nans.size(), target)[0];
    EXPECT_EQ(result.as<uint16_t>(), std::vector<uint16_t>(nans.size(), 0x7fc0)) << name_of(target);
  }
}

TEST(Conversion, RoundGoesThroughTheNarrowType) {
  const std::vector<float> values{1.0009765f, 1.0f / 3, 70000.0f, -1e-8f,
                                  3.4e38f,    1e-41f,   -0.0f,    INFINITY};
  for (Target target : targets()) {
    for (at::ScalarType type : {at::kHalf, at::kBFloat16}) {
      ScalarBuilder b({at::kFloat});
      b.store(b.round(b.load(0), type), at::kFloat);
      const auto result =
          run(b.finish(), {Array::of(at::kFloat, values)}, values.size(), target)[0].as<float>();
      for (size_t k = 0; k < values.size(); ++k) {
        const float expected =
            type == at::kHalf ? float(at::Half(values[k])) : float(at::BFloat16(values[k]));
        EXPECT_EQ(std::bit_cast<uint32_t>(result[k]), std::bit_cast<uint32_t>(expected))
            << values[k];
      }
    }
  }
}

// Values that every type can be asked about; those outside `to` are left out where C++ leaves the
// result open.
std::vector<double> samples(at::ScalarType from, at::ScalarType to) {
  std::vector<double> values;
  for (double value : {0.0,          0.25,
                       0.5,          0.99,
                       1.0,          1.5,
                       2.0,          63.9,
                       127.0,        127.5,
                       128.0,        200.0,
                       255.0,        256.0,
                       1000.25,      32767.0,
                       40000.0,      16777217.0,
                       2147483520.0, 4294967295.0,
                       1e10,         9007199254740993.0,
                       9.2e18,       1e20,
                       1e30,         1e-40}) {
    values.insert(values.end(), {value, -value});
  }
  if (at::isFloatingType(from)) {
    const double infinity = std::numeric_limits<double>::infinity();
    values.insert(values.end(), {infinity, -infinity, std::nan("")});
  }
  if (!at::isFloatingType(from) || at::isFloatingType(to) || to == at::kBool) return values;
  const int bits = 8 * static_cast<int>(c10::elementSize(to));
  const double low = to == at::kByte ? 0 : -std::ldexp(1.0, bits - 1);
  const double high = std::ldexp(1.0, to == at::kByte ? bits : bits - 1);
  std::erase_if(values,
                [&](double value) { return !(value > low - 1 && value < high && value >= low); });
  return values;
}

// The samples as elements of `from`, by ATen; what does not fit a narrow integer wraps there.
at::Tensor inputs_of(at::ScalarType from, at::ScalarType to) {
  const std::vector<double> values = samples(from, to);
  const at::Tensor doubles = tensor_of(Array::of(at::kDouble, values));
  return at::isFloatingType(from) || from == at::kBool
             ? doubles.to(from)
             : doubles.clamp(-9e18, 9e18).to(at::kLong).to(from);
}

TEST(Conversion, CastsAgreeWithATen) {
  for (at::ScalarType from : kRegisterTypes) {
    for (at::ScalarType to : kRegisterTypes) {
      const at::Tensor input = inputs_of(from, to), expected = input.to(to);
      for (Target target : targets()) {
        const auto result =
            run(copy_program(from, to), {array_of(input)}, input.numel(), target)[0];
        const at::Tensor got = tensor_of(result);
        EXPECT_TRUE(got.equal(expected) ||
                    (at::isFloatingType(to) && got.allclose(expected, 0, 0, /*equal_nan=*/true)))
            << name_of(target) << ", " << from << " to " << to << "\n"
            << at::stack({input.to(at::kDouble), got.to(at::kDouble), expected.to(at::kDouble)}, 1);
      }
    }
  }
}

// Out of range: any value, but no trap, and the other lanes keep theirs.
TEST(Conversion, OutOfRangeHarmsNoNeighbour) {
  for (at::ScalarType from : {at::kFloat, at::kDouble}) {
    for (at::ScalarType to : {at::kByte, at::kChar, at::kShort, at::kInt, at::kLong}) {
      std::vector<double> values;
      for (int k = 0; k < 50; ++k)
        values.insert(values.end(), {7.0, k % 3 == 0 ? 1e30 : k % 3 == 1 ? -INFINITY : NAN});
      const at::Tensor input = tensor_of(Array::of(at::kDouble, values)).to(from);
      for (Target target : targets()) {
        const at::Tensor got =
            tensor_of(run(copy_program(from, to), {array_of(input)}, input.numel(), target)[0])
                .to(at::kLong);
        for (int64_t k = 0; k < 100; k += 2)
          ASSERT_EQ(got.const_data_ptr<int64_t>()[k], 7) << name_of(target) << from << to;
      }
    }
  }
}

TEST(Conversion, AnyByteButZeroIsTrue) {
  std::vector<unsigned char> bytes(256);
  for (int k = 0; k < 256; ++k) bytes[k] = static_cast<unsigned char>(k);
  for (Target target : targets()) {
    const auto out =
        run(copy_program(at::kBool, at::kBool), {Array::of(at::kBool, bytes)}, 256, target)[0]
            .as<unsigned char>();
    const auto numbers =
        run(copy_program(at::kBool, at::kInt), {Array::of(at::kBool, bytes)}, 256, target)[0]
            .as<int>();
    for (int k = 0; k < 256; ++k) {
      ASSERT_EQ(out[k], k != 0) << name_of(target);
      ASSERT_EQ(numbers[k], k != 0) << name_of(target);
    }
  }
}

}  // namespace
}  // namespace scramjet::codegen::cpu
