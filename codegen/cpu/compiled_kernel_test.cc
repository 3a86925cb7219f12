// Shapes, strides, sharing of memory, threads: what does not depend on the arithmetic.

#include "codegen/cpu/compiled_kernel.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "codegen/cpu/kernel_runner.h"
#include "codegen/cpu/multiply_chain.h"

namespace scramjet::codegen::cpu {
namespace {

std::vector<int64_t> sizes() {
  std::vector<int64_t> sizes;
  for (int64_t size = 0; size <= 70; ++size) sizes.push_back(size);
  for (int64_t size : {127, 128, 129, 255, 300, 511, 513, 1000}) sizes.push_back(size);
  return sizes;
}

template <typename T>
std::vector<T> counting(int64_t size, int start) {
  std::vector<T> values(size);
  for (int64_t k = 0; k < size; ++k) values[k] = static_cast<T>((k + start) % 97);
  return values;
}

// out = a - b * b
template <typename T>
ScalarProgram subtract_square(at::ScalarType type) {
  ScalarBuilder b({type, type});
  const Value y = b.load(1);
  b.store(b.binary(Opcode::kSub, b.load(0), b.binary(Opcode::kMul, y, y)), type);
  return b.finish();
}

template <typename T>
void check_shapes(at::ScalarType type, int64_t rows) {
  const ScalarProgram program = subtract_square<T>(type);
  std::vector<std::vector<Access>> accesses;
  for (Access out : {Access::kContiguous, Access::kStrided}) {
    for (Access a : {Access::kContiguous, Access::kBroadcast, Access::kStrided})
      accesses.push_back({out, a, Access::kContiguous});
  }
  accesses.push_back({Access::kContiguous, Access::kStrided, Access::kBroadcast});
  for (Target target : targets()) {
    for (const auto& access : accesses) {
      const auto kernel = compile_for_test(program, target, {.access = access});
      for (int64_t size : rows == 1 ? sizes() : std::vector<int64_t>{0, 1, 15, 64, 200}) {
        const int64_t count = size * rows;
        const auto a = counting<T>(access[1] == Access::kBroadcast ? rows : count, 3);
        const auto b = counting<T>(access[2] == Access::kBroadcast ? rows : count, 5);
        std::vector<T> expected(count);
        for (int64_t k = 0; k < count; ++k) {
          const T x = a[access[1] == Access::kBroadcast ? k / size : k],
                  y = b[access[2] == Access::kBroadcast ? k / size : k];
          expected[k] = static_cast<T>(x - y * y);
        }
        const Edge edge = size % 2 == 0 ? Edge::kBack : Edge::kFront;
        const Layout layout{
            .access = access, .stride = size % 3 == 0 ? -2 : 3, .rows = rows, .edge = edge};
        const auto results =
            run(*kernel, program, {Array::of(type, a), Array::of(type, b)}, size, layout);
        ASSERT_EQ(results[0].template as<T>(), expected)
            << name_of(target) << ", " << size << " elements";
      }
    }
  }
}

TEST(CompiledKernel, EverySizeAndAccessFloat) { check_shapes<float>(at::kFloat, 1); }
TEST(CompiledKernel, EverySizeAndAccessDouble) { check_shapes<double>(at::kDouble, 1); }
TEST(CompiledKernel, EverySizeAndAccessBytes) { check_shapes<int8_t>(at::kChar, 1); }
TEST(CompiledKernel, EverySizeAndAccessShort) { check_shapes<int16_t>(at::kShort, 1); }
TEST(CompiledKernel, EverySizeAndAccessLong) { check_shapes<int64_t>(at::kLong, 1); }
TEST(CompiledKernel, Rows) { check_shapes<float>(at::kFloat, 5); }
TEST(CompiledKernel, RowsOfBytes) { check_shapes<uint8_t>(at::kByte, 5); }

TEST(CompiledKernel, NoRowsNoAccess) {
  for (Target target : targets()) {
    std::string reason;
    const auto kernel =
        compile({.program = subtract_square<float>(at::kFloat),
                 .access = {Access::kContiguous, Access::kBroadcast, Access::kContiguous},
                 .name = "empty"},
                &reason, target);
    char* pointers[3] = {nullptr, nullptr, nullptr};
    const int64_t strides[6] = {4, 0, 4, 0, 0, 0};
    kernel->loop()(pointers, strides, 0, 5);
    kernel->loop()(pointers, strides, 5, 0);
  }
}

TEST(CompiledKernel, OutputInPlaceOfAnInput) {
  for (Target target : targets()) {
    for (Access access : {Access::kContiguous, Access::kStrided}) {
      for (int64_t size : {1, 7, 63, 64, 65, 500}) {
        const auto a = counting<float>(size, 3), b = counting<float>(size, 5);
        std::vector<float> expected(size);
        for (int64_t k = 0; k < size; ++k) expected[k] = a[k] - b[k] * b[k];
        for (int input : {0, 1}) {
          const Layout layout{.access = {access, access, access}, .in_place = input};
          const auto results =
              run(subtract_square<float>(at::kFloat),
                  {Array::of(at::kFloat, a), Array::of(at::kFloat, b)}, size, target, layout);
          ASSERT_EQ(results[0].as<float>(), expected)
              << name_of(target) << ", " << size << " in place of input " << input;
        }
      }
    }
  }
}

// Outputs of several widths: each lands in its own memory, all in step.
TEST(CompiledKernel, MixedWidths) {
  ScalarBuilder b({at::kChar, at::kDouble, at::kHalf});
  const Value sum = b.binary(Opcode::kAdd, b.cast(b.load(0), at::kDouble), b.load(1));
  b.store(sum, at::kDouble);
  b.store(b.binary(Opcode::kMul, b.cast(sum, at::kFloat), b.load(2)), at::kFloat);
  b.store(b.binary(Opcode::kGt, b.load(1), b.constant(10, at::kDouble)), at::kBool);
  const ScalarProgram program = b.finish();
  for (Target target : targets()) {
    const auto kernel = compile_for_test(program, target);
    for (int64_t size : sizes()) {
      const auto x = counting<int8_t>(size, 3);
      const auto y = counting<double>(size, 5);
      const std::vector<at::Half> h(size, at::Half(0.5f));
      const auto out =
          run(*kernel, program,
              {Array::of(at::kChar, x), Array::of(at::kDouble, y), Array::of(at::kHalf, h)}, size);
      for (int64_t k = 0; k < size; ++k) {
        ASSERT_EQ(out[0].as<double>()[k], x[k] + y[k]);
        ASSERT_EQ(out[1].as<float>()[k], static_cast<float>(x[k] + y[k]) * 0.5f);
        ASSERT_EQ(out[2].as<char>()[k], y[k] > 10 ? 1 : 0);
      }
    }
  }
}

// 51 operations, denormals among the results. 500: longer than the registers' worth of any loop
// body.
TEST(CompiledKernel, LongChainsToTheBit) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-0.5f, 1.3f);
  std::vector<float> x(1003);
  for (float& value : x) value = uniform(random);
  for (int length : {50, 500}) {
    std::vector<float> expected(x.size());
    for (size_t k = 0; k < x.size(); ++k) {
      const float y = x[k] < 0 ? 0 : x[k];
      expected[k] = y;
      for (int n = 0; n < length; ++n) expected[k] *= y;
    }
    for (Target target : targets()) {
      const auto result = run(multiply_chain(length), {Array::of(at::kFloat, x)}, 1003, target);
      EXPECT_EQ(result[0].as<float>(), expected) << name_of(target);
    }
  }
}

TEST(CompiledKernel, AnAbsurdLengthIsAReason) {
  std::string reason;
  const CompileSpec spec{.program = multiply_chain(20001),
                         .access = {Access::kContiguous, Access::kContiguous},
                         .name = "absurd"};
  EXPECT_EQ(compile(spec, &reason), nullptr);
  EXPECT_NE(reason.find("instructions"), std::string::npos) << reason;
}

// Many values alive at once: correct where registers do not suffice.
TEST(CompiledKernel, MoreValuesThanRegisters) {
  ScalarBuilder b({at::kFloat});
  const Value x = b.load(0);
  std::vector<Value> terms;
  for (int k = 1; k <= 60; ++k)
    terms.push_back(b.binary(Opcode::kMul, x, b.constant(k, at::kFloat)));
  Value sum = terms[0];
  for (size_t k = 1; k < terms.size(); ++k) sum = b.binary(Opcode::kAdd, sum, terms[k]);
  b.store(sum, at::kFloat);
  const ScalarProgram program = b.finish();
  const auto values = counting<float>(333, 1);
  for (Target target : targets()) {
    const auto result = run(program, {Array::of(at::kFloat, values)}, 333, target)[0].as<float>();
    for (size_t k = 0; k < values.size(); ++k)
      ASSERT_EQ(result[k], values[k] * 1830) << name_of(target);
  }
}

TEST(CompiledKernel, ThreadsCompileRunAndFree) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int round = 0; round < 10; ++round) {
        const Target target = targets()[(t + round) % targets().size()];
        const int length = 1 + 5 * t + round;
        const auto result = run(multiply_chain(length),
                                {Array::of(at::kFloat, std::vector<float>(50, 2.0f))}, 50, target);
        EXPECT_EQ(result[0].as<float>(), std::vector<float>(50, std::ldexp(1.0f, length + 1)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(CompiledKernel, TextOfBothStages) {
  const CompileSpec spec{.program = multiply_chain(2),
                         .access = {Access::kContiguous, Access::kContiguous},
                         .name = "text"};
  EXPECT_NE(llvm_ir(spec).find("fmul <"), std::string::npos);
  EXPECT_NE(assembly(spec).find("mulps"), std::string::npos);
  EXPECT_NE(target_description().find("-bit vectors"), std::string::npos);
}

}  // namespace
}  // namespace scramjet::codegen::cpu
