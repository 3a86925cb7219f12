// Every opcode in every type it takes, on every pair of odd values, against C++ on one element.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <type_traits>

#include "codegen/cpu/kernel_runner.h"

namespace scramjet::codegen::cpu {
namespace {

template <typename T>
std::vector<T> odd_values() {
  using L = std::numeric_limits<T>;
  if constexpr (std::is_floating_point_v<T>) {
    const T values[] = {0,
                        1,
                        2,
                        0.5,
                        1.5,
                        2.5,
                        3.5,
                        0.3,
                        7,
                        1e6,
                        12345.678,
                        8388607.5,
                        4503599627370495.5,
                        L::min(),
                        L::min() / 4,
                        L::denorm_min(),
                        L::max(),
                        L::infinity(),
                        L::quiet_NaN(),
                        T(1) + L::epsilon(),
                        1e-3,
                        1e30};
    std::vector<T> both;
    for (T value : values) both.insert(both.end(), {value, -value});
    return both;
  } else if constexpr (std::is_same_v<T, bool>) {
    return {false, true};
  } else {
    std::vector<T> values;
    for (int64_t value :
         {0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 31, 32, 33, 63, 64, 65, 100, 127, 128, 200, 255}) {
      values.insert(values.end(), {static_cast<T>(value), static_cast<T>(-value)});
    }
    values.insert(values.end(),
                  {L::min(), L::max(), static_cast<T>(L::max() - 1), static_cast<T>(L::min() + 1)});
    return values;
  }
}

template <typename T>
constexpr at::ScalarType kTypeOf = c10::CppTypeToScalarType<T>::value;

template <typename T>
struct Pairs {
  std::vector<T> a, b;
  Pairs() {
    for (T x : odd_values<T>()) {
      for (T y : odd_values<T>()) {
        a.push_back(x);
        b.push_back(y);
      }
    }
  }
};

// std::vector<bool> has no memory of bytes.
template <typename T>
Array array_of(const std::vector<T>& values) {
  if constexpr (std::is_same_v<T, bool>) {
    return Array::of(at::kBool, std::vector<char>(values.begin(), values.end()));
  } else {
    return Array::of(kTypeOf<T>, values);
  }
}

template <typename T>
T element(const Array& array, size_t k) {
  T value;
  std::memcpy(&value, array.bytes.data() + k * sizeof(T), sizeof(T));
  return value;
}

// Bits, so that -0.0 is not 0.0; any NaN is as good as another.
template <typename T>
bool same(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
    return std::memcmp(&a, &b, sizeof(T)) == 0;
  }
  return a == b;
}

template <typename T, typename R = T>
void check(Opcode opcode, const std::type_identity_t<std::function<R(T, T)>>& oracle,
           bool binary = true) {
  ScalarBuilder b({kTypeOf<T>, kTypeOf<T>});
  const Value x = b.load(0);
  b.store(binary ? b.binary(opcode, x, b.load(1)) : b.unary(opcode, x), kTypeOf<R>);
  const ScalarProgram program = b.finish();
  const Pairs<T> pairs;
  for (Target target : targets()) {
    const auto result =
        run(program, {array_of(pairs.a), array_of(pairs.b)}, pairs.a.size(), target)[0];
    for (size_t k = 0; k < pairs.a.size(); ++k) {
      const R expected = oracle(pairs.a[k], pairs.b[k]), got = element<R>(result, k);
      ASSERT_TRUE(same(expected, got))
          << name_of(target) << ": of " << +pairs.a[k] << " and " << +pairs.b[k] << " got " << +got
          << ", expected " << +expected << "\n"
          << program.to_string();
    }
  }
}

template <typename T>
void check_unary(Opcode opcode, const std::type_identity_t<std::function<T(T)>>& oracle) {
  check<T>(
      opcode, [&](T a, T) { return oracle(a); }, false);
}

template <typename T>
void check_comparisons() {
  check<T, bool>(Opcode::kEq, [](T a, T b) { return a == b; });
  check<T, bool>(Opcode::kNe, [](T a, T b) { return a != b; });
  check<T, bool>(Opcode::kLt, [](T a, T b) { return a < b; });
  check<T, bool>(Opcode::kLe, [](T a, T b) { return a <= b; });
  check<T, bool>(Opcode::kGt, [](T a, T b) { return a > b; });
  check<T, bool>(Opcode::kGe, [](T a, T b) { return a >= b; });
}

template <typename T>
void check_select() {
  ScalarBuilder b({kTypeOf<T>, kTypeOf<T>, at::kBool});
  b.store(b.select(b.load(2), b.load(0), b.load(1)), kTypeOf<T>);
  const ScalarProgram program = b.finish();
  const Pairs<T> pairs;
  std::vector<unsigned char> condition(pairs.a.size());  // a bool is any byte that is not 0
  for (size_t k = 0; k < condition.size(); ++k) condition[k] = k % 5 == 0 ? 0 : k % 256;
  for (Target target : targets()) {
    const auto result =
        run(program, {array_of(pairs.a), array_of(pairs.b), Array::of(at::kBool, condition)},
            condition.size(), target)[0];
    for (size_t k = 0; k < condition.size(); ++k) {
      ASSERT_TRUE(same<T>(element<T>(result, k), condition[k] != 0 ? pairs.a[k] : pairs.b[k]))
          << name_of(target) << " at " << k;
    }
  }
}

template <typename T>
class FloatArithmetic : public testing::Test {};
using Floats = testing::Types<float, double>;
TYPED_TEST_SUITE(FloatArithmetic, Floats);

TYPED_TEST(FloatArithmetic, Binary) {
  using T = TypeParam;
  check<T>(Opcode::kAdd, [](T a, T b) { return a + b; });
  check<T>(Opcode::kSub, [](T a, T b) { return a - b; });
  check<T>(Opcode::kMul, [](T a, T b) { return a * b; });
  check<T>(Opcode::kDiv, [](T a, T b) { return a / b; });
  check<T>(Opcode::kCopySign, [](T a, T b) { return std::copysign(a, b); });
}

TYPED_TEST(FloatArithmetic, Unary) {
  using T = TypeParam;
  check_unary<T>(Opcode::kNeg, [](T a) { return -a; });
  check_unary<T>(Opcode::kAbs, [](T a) { return std::abs(a); });
  check_unary<T>(Opcode::kFloor, [](T a) { return std::floor(a); });
  check_unary<T>(Opcode::kCeil, [](T a) { return std::ceil(a); });
  check_unary<T>(Opcode::kTrunc, [](T a) { return std::trunc(a); });
  check_unary<T>(Opcode::kRoundEven, [](T a) { return std::nearbyint(a); });
  check_unary<T>(Opcode::kSqrt, [](T a) { return std::sqrt(a); });
}

TYPED_TEST(FloatArithmetic, ComparisonsAndSelect) {
  check_comparisons<TypeParam>();
  check_select<TypeParam>();
}

// a * b + c rounds twice, unless fast_math allows one rounding.
TYPED_TEST(FloatArithmetic, MultiplyAddIsNotFused) {
  using T = TypeParam;
  ScalarBuilder b({kTypeOf<T>, kTypeOf<T>});
  const Value x = b.load(0);
  b.store(b.binary(Opcode::kAdd, b.binary(Opcode::kMul, x, x), b.load(1)), kTypeOf<T>);
  const ScalarProgram program = b.finish();
  const T x1 = T(1) + std::numeric_limits<T>::epsilon();
  const std::vector<T> xs(100, x1), cs(100, -x1 * x1);
  for (Target target : targets()) {
    for (bool fast : {false, true}) {
      const auto result = run(program, {array_of(xs), array_of(cs)}, 100, target,
                              {.access = {}, .fast_math = fast})[0]
                              .template as<T>();
      const bool fused = fast && target != Target::kSse;
      EXPECT_EQ(result, std::vector<T>(100, fused ? std::fma(x1, x1, cs[0]) : T(0)))
          << name_of(target);
    }
  }
}

// kFma rounds once on every target, also where the CPU has no such instruction.
TYPED_TEST(FloatArithmetic, FusedMultiplyAdd) {
  using T = TypeParam;
  ScalarBuilder b({kTypeOf<T>, kTypeOf<T>});
  const Value x = b.load(0), y = b.load(1);
  b.store(b.fma(x, x, y), kTypeOf<T>);
  const ScalarProgram program = b.finish();
  const Pairs<T> pairs;
  for (Target target : targets()) {
    const auto result =
        run(program, {array_of(pairs.a), array_of(pairs.b)}, pairs.a.size(), target)[0];
    for (size_t k = 0; k < pairs.a.size(); ++k) {
      const T expected = std::fma(pairs.a[k], pairs.a[k], pairs.b[k]);
      ASSERT_TRUE(same(expected, element<T>(result, k)))
          << name_of(target) << ": " << pairs.a[k] << " and " << pairs.b[k];
    }
  }
}

template <typename T>
class IntegerArithmetic : public testing::Test {};
using Integers = testing::Types<int8_t, uint8_t, int16_t, int32_t, int64_t>;
TYPED_TEST_SUITE(IntegerArithmetic, Integers);

TYPED_TEST(IntegerArithmetic, Binary) {
  using T = TypeParam;
  using U = uint64_t;  // wraps without undefined behaviour
  check<T>(Opcode::kAdd, [](T a, T b) { return static_cast<T>(U(a) + U(b)); });
  check<T>(Opcode::kSub, [](T a, T b) { return static_cast<T>(U(a) - U(b)); });
  check<T>(Opcode::kMul, [](T a, T b) { return static_cast<T>(U(a) * U(b)); });
  check<T>(Opcode::kAnd, [](T a, T b) { return static_cast<T>(a & b); });
  check<T>(Opcode::kOr, [](T a, T b) { return static_cast<T>(a | b); });
  check<T>(Opcode::kXor, [](T a, T b) { return static_cast<T>(a ^ b); });
}

TYPED_TEST(IntegerArithmetic, Shifts) {
  using T = TypeParam;
  constexpr int kBits = 8 * sizeof(T);
  const auto outside = [](T count) { return count < 0 || static_cast<uint64_t>(count) >= kBits; };
  check<T>(Opcode::kShl,
           [&](T a, T b) { return outside(b) ? T(0) : static_cast<T>(uint64_t(a) << b); });
  check<T>(Opcode::kShr, [&](T a, T b) {
    return outside(b) ? static_cast<T>(a < 0 ? -1 : 0) : static_cast<T>(a >> b);
  });
}

TYPED_TEST(IntegerArithmetic, Unary) {
  using T = TypeParam;
  check_unary<T>(Opcode::kNeg, [](T a) { return static_cast<T>(-uint64_t(a)); });
  check_unary<T>(Opcode::kAbs, [](T a) { return a < 0 ? static_cast<T>(-uint64_t(a)) : a; });
  check_unary<T>(Opcode::kNot, [](T a) { return static_cast<T>(~a); });
}

TYPED_TEST(IntegerArithmetic, ComparisonsAndSelect) {
  check_comparisons<TypeParam>();
  check_select<TypeParam>();
}

TEST(BoolArithmetic, Everything) {
  check<bool>(Opcode::kAnd, [](bool a, bool b) { return a && b; });
  check<bool>(Opcode::kOr, [](bool a, bool b) { return a || b; });
  check<bool>(Opcode::kXor, [](bool a, bool b) { return a != b; });
  check_unary<bool>(Opcode::kNot, [](bool a) { return !a; });
  check_comparisons<bool>();
  check_select<bool>();
}

}  // namespace
}  // namespace scramjet::codegen::cpu
