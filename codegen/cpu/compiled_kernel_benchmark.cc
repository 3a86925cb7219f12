// What the generated code reaches on data that stays in the cache, and how long it takes to make.
//   bazel run //codegen/cpu:compiled_kernel_benchmark

#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "codegen/cpu/compiled_kernel.h"
#include "codegen/cpu/multiply_chain.h"

namespace scramjet::codegen::cpu {
namespace {

ScalarProgram add_two(at::ScalarType type) {
  ScalarBuilder b({type, type});
  b.store(b.binary(Opcode::kAdd, b.load(0), b.load(1)), type);
  return b.finish();
}

ScalarProgram exponential() {
  ScalarBuilder b({at::kFloat});
  b.store(b.call(Math::kExp, b.load(0)), at::kFloat);
  return b.finish();
}

void run(benchmark::State& state, const CompileSpec& spec, Target target, int64_t stride = 4,
         int64_t size = 4096) {
  std::string reason;
  const auto kernel = compile(spec, &reason, target);
  if (kernel == nullptr) return state.SkipWithError(reason.c_str());
  const size_t operands = spec.access.size();
  std::vector<std::vector<float>> buffers(operands, std::vector<float>(size * stride / 4, 1.0f));
  std::vector<char*> pointers;
  std::vector<int64_t> strides;
  for (size_t k = 0; k < operands; ++k) {
    pointers.push_back(reinterpret_cast<char*>(buffers[k].data()));
    strides.push_back(spec.access[k] == Access::kStrided ? stride : 4);
  }
  strides.resize(2 * operands, 0);
  for (auto _ : state) {
    kernel->loop()(pointers.data(), strides.data(), size, 1);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * size);
}

void chain(benchmark::State& state, Target target) {
  run(state,
      {.program = multiply_chain(50),
       .access = {Access::kContiguous, Access::kContiguous},
       .name = "chain"},
      target);
}
void add(benchmark::State& state, Target target) {
  run(state,
      {.program = add_two(at::kFloat),
       .access = std::vector(3, Access::kContiguous),
       .name = "add"},
      target);
}
void add_short_row(benchmark::State& state, Target target) {
  run(state,
      {.program = add_two(at::kFloat),
       .access = std::vector(3, Access::kContiguous),
       .name = "add"},
      target, 4, state.range(0));
}
void add_strided(benchmark::State& state, Target target) {
  run(state,
      {.program = add_two(at::kFloat),
       .access = {Access::kContiguous, Access::kStrided, Access::kStrided},
       .name = "add"},
      target, 12, 1024);
}
void exp(benchmark::State& state, Target target) {
  run(state,
      {.program = exponential(),
       .access = {Access::kContiguous, Access::kContiguous},
       .name = "exp"},
      target);
}
void compile_chain(benchmark::State& state, Target target) {
  const CompileSpec spec{.program = multiply_chain(static_cast<int>(state.range(0))),
                         .access = {Access::kContiguous, Access::kContiguous},
                         .name = "chain"};
  std::string reason;
  for (auto _ : state) benchmark::DoNotOptimize(compile(spec, &reason, target));
}

#define SCRAMJET_BENCHMARK(function)                    \
  BENCHMARK_CAPTURE(function, avx512, Target::kAvx512); \
  BENCHMARK_CAPTURE(function, avx2, Target::kAvx2);     \
  BENCHMARK_CAPTURE(function, sse, Target::kSse)

SCRAMJET_BENCHMARK(chain);
SCRAMJET_BENCHMARK(add);
SCRAMJET_BENCHMARK(add_strided);
SCRAMJET_BENCHMARK(exp);
BENCHMARK_CAPTURE(add_short_row, host, Target::kHost)->Arg(1)->Arg(7)->Arg(70)->Arg(120);
BENCHMARK_CAPTURE(compile_chain, avx512, Target::kAvx512)
    ->Arg(1)
    ->Arg(50)
    ->Arg(500)
    ->Arg(5000)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(compile_chain, avx2, Target::kAvx2)
    ->Arg(50)
    ->Arg(500)
    ->Arg(5000)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace scramjet::codegen::cpu

BENCHMARK_MAIN();
