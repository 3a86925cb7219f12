// The math functions against ATen's operators, over their domains and beyond.

#include "codegen/cpu/math_functions.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/atan2.h>
#include <ATen/ops/fmod.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/hypot.h>
#include <ATen/ops/pow.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "codegen/cpu/kernel_runner.h"

namespace scramjet::codegen::cpu {
namespace {

// ATen calls MKL, Sleef or the C library, by function, shape and capability, each within 1 ulp of
// the truth.
constexpr int64_t kTolerance = 2;
// Sleef's sine and cosine with 3.5 ulp are what ATen's vectors of float use.
constexpr int64_t kSineTolerance = 4;

struct Row {
  Math math;
  const char* name;
  at::Tensor (*aten)(const at::Tensor&, const at::Tensor&);
  int64_t tolerance = kTolerance;
};

#define UNARY(name) [](const at::Tensor& a, const at::Tensor&) { return a.name(); }
#define BINARY(name) [](const at::Tensor& a, const at::Tensor& b) { return at::name(a, b); }

const Row kRows[] = {{Math::kExp, "exp", UNARY(exp)},
                     {Math::kExp2, "exp2", UNARY(exp2)},
                     {Math::kExpm1, "expm1", UNARY(expm1)},
                     {Math::kLog, "log", UNARY(log)},
                     {Math::kLog2, "log2", UNARY(log2)},
                     {Math::kLog10, "log10", UNARY(log10)},
                     {Math::kLog1p, "log1p", UNARY(log1p)},
                     {Math::kSin, "sin", UNARY(sin), kSineTolerance},
                     {Math::kCos, "cos", UNARY(cos), kSineTolerance},
                     {Math::kTan, "tan", UNARY(tan)},
                     {Math::kAsin, "asin", UNARY(asin)},
                     {Math::kAcos, "acos", UNARY(acos)},
                     {Math::kAtan, "atan", UNARY(atan)},
                     {Math::kSinh, "sinh", UNARY(sinh)},
                     {Math::kCosh, "cosh", UNARY(cosh)},
                     {Math::kTanh, "tanh", UNARY(tanh)},
                     {Math::kAsinh, "asinh", UNARY(asinh)},
                     {Math::kAcosh, "acosh", UNARY(acosh)},
                     {Math::kAtanh, "atanh", UNARY(atanh)},
                     {Math::kErf, "erf", UNARY(erf)},
                     {Math::kErfc, "erfc", UNARY(erfc)},
                     {Math::kPow, "pow", BINARY(pow)},
                     {Math::kAtan2, "atan2", BINARY(atan2)},
                     {Math::kHypot, "hypot", BINARY(hypot)}};

bool is_binary(Math math) { return math >= Math::kPow; }

template <typename T>
std::vector<T> arguments(int seed) {
  std::mt19937 random(seed);
  std::vector<T> values{0,
                        -T(0),
                        1,
                        -1,
                        2,
                        -2,
                        0.5,
                        INFINITY,
                        -INFINITY,
                        NAN,
                        88.5,
                        -88.5,
                        89.2,
                        -104,
                        100,
                        709.5,
                        -740,
                        710,
                        std::numeric_limits<T>::max(),
                        std::numeric_limits<T>::min(),
                        std::numeric_limits<T>::denorm_min(),
                        std::numeric_limits<T>::lowest()};
  for (double range : {1.0, 10.0, 100.0}) {
    std::uniform_real_distribution<double> uniform(-range, range);
    for (int k = 0; k < 3000; ++k) values.push_back(static_cast<T>(uniform(random)));
  }
  std::uniform_real_distribution<double> exponent(-30, 30);
  for (int k = 0; k < 1000; ++k) values.push_back(static_cast<T>(std::exp2(exponent(random))));
  std::shuffle(values.begin(), values.end(), random);
  return values;
}

template <typename T>
at::Tensor tensor_of(std::vector<T>& values) {
  return at::from_blob(values.data(), {static_cast<int64_t>(values.size())},
                       at::TensorOptions().dtype(at::CppTypeToScalarType<T>::value));
}

// Representable values between the two; 0 for two NaNs.
template <typename T>
int64_t ulps(T a, T b) {
  if (std::isnan(a) && std::isnan(b)) return 0;
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<int64_t>::max();
  using Bits = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  const auto ordered = [](T value) {
    const int64_t bits = std::bit_cast<Bits>(value);
    return bits < 0 ? static_cast<int64_t>(std::numeric_limits<Bits>::min()) - bits : bits;
  };
  return std::abs(ordered(a) - ordered(b));
}

template <typename T>
void check(const char* name, const ScalarProgram& program,
           at::Tensor (*aten)(const at::Tensor&, const at::Tensor&), int64_t tolerance) {
  std::vector<T> a = arguments<T>(1), b = arguments<T>(2);
  const at::ScalarType type = at::CppTypeToScalarType<T>::value;
  const at::Tensor expected = aten(tensor_of(a), tensor_of(b)).contiguous();
  const at::Tensor in_double =
      aten(tensor_of(a).to(at::kDouble), tensor_of(b).to(at::kDouble)).to(type).contiguous();
  for (Target target : targets()) {
    const auto got = run(program, {Array::of(type, a), Array::of(type, b)}, a.size(), target)[0]
                         .template as<T>();
    int64_t worst = 0, different = 0;
    for (size_t k = 0; k < a.size(); ++k) {
      const T want = expected.const_data_ptr<T>()[k];
      // ATen runs Sleef here, which overflows or gives up earlier (sinh(710), fmod(max, 0.5)) than
      // the C library.
      if (target == Target::kSse && !std::isfinite(want)) continue;
      int64_t distance = ulps(got[k], want);
      // Before 2.15 torch's float sinh and cosh are Sleef's, which overflow from 88.7 on, not 89.4.
      if (std::isinf(want))
        distance = std::min(distance, ulps(got[k], in_double.const_data_ptr<T>()[k]));
      worst = std::max(worst, distance);
      different += distance != 0;
      EXPECT_LE(distance, tolerance) << name_of(target) << ": " << name << "(" << a[k] << ", "
                                     << b[k] << ") is " << got[k] << ", ATen has " << want;
      if (distance > tolerance) break;
    }
    testing::Test::RecordProperty(
        name + (" " + name_of(target)),
        "worst " + std::to_string(worst) + " ulp, different " + std::to_string(different));
  }
}

template <typename T>
void check_all() {
  const at::ScalarType type = at::CppTypeToScalarType<T>::value;
  for (const Row& row : kRows) {
    ScalarBuilder b({type, type});
    b.store(b.call(row.math, b.load(0), is_binary(row.math) ? b.load(1) : -1), type);
    check<T>(row.name, b.finish(), row.aten, row.tolerance);
  }
  ScalarBuilder b({type, type});
  b.store(b.binary(Opcode::kRem, b.load(0), b.load(1)), type);
  check<T>("fmod", b.finish(), BINARY(fmod), 0);
}

TEST(MathFunctions, FloatAgreesWithATen) { check_all<float>(); }
TEST(MathFunctions, DoubleAgreesWithATen) { check_all<double>(); }

// The last elements of a row have the bits that they would have elsewhere.
TEST(MathFunctions, TailsHaveTheSameBits) {
  std::vector<float> x = arguments<float>(3);
  ScalarBuilder b({at::kFloat});
  b.store(b.call(Math::kTanh, b.load(0)), at::kFloat);
  const ScalarProgram program = b.finish();
  for (Target target : targets()) {
    const auto whole = run(program, {Array::of(at::kFloat, x)}, x.size(), target)[0].as<uint32_t>();
    for (size_t size : {1, 3, 9, 15, 17, 40}) {
      const std::vector<float> part(x.begin(), x.begin() + size);
      const auto got = run(program, {Array::of(at::kFloat, part)}, size, target)[0].as<uint32_t>();
      EXPECT_EQ(got, std::vector<uint32_t>(whole.begin(), whole.begin() + size)) << name_of(target);
    }
  }
}

// Beside doubles a vector of floats is half a register; beside bytes it is several.
TEST(MathFunctions, VectorsNarrowerThanARegister) {
  std::vector<float> x(75);
  for (size_t k = 0; k < x.size(); ++k) x[k] = 0.1f * k;
  ScalarBuilder b({at::kFloat});
  const Value e = b.call(Math::kExp, b.load(0));
  b.store(b.cast(e, at::kDouble), at::kDouble);
  b.store(b.call(Math::kAtan2, e, b.load(0)), at::kFloat);
  const ScalarProgram program = b.finish();
  for (Target target : targets()) {
    const auto out = run(program, {Array::of(at::kFloat, x)}, x.size(), target);
    for (size_t k = 0; k < x.size(); ++k) {
      EXPECT_LE(ulps(static_cast<float>(out[0].as<double>()[k]), std::exp(x[k])), kTolerance)
          << name_of(target);
      EXPECT_LE(ulps(out[1].as<float>()[k], std::atan2(std::exp(x[k]), x[k])), kTolerance)
          << name_of(target);
    }
  }
}

}  // namespace
}  // namespace scramjet::codegen::cpu
