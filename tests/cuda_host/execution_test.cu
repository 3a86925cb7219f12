#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

// That the kernels of this file do on the CPU what a GPU would do with them.
namespace scramjet::cuda_host {
namespace {

/// Calls `body` with the threads in both orders.
template <typename Body>
void in_both_orders(const Body& body) {
  for (const Order order : {Order::kForward, Order::kBackward}) {
    set_order(order);
    body();
  }
  set_order(Order::kForward);
}

/// The message of the ExecutionError that `body` throws.
std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const ExecutionError& error) {
    return error.what();
  }
  return "no error";
}

void expect_error(const std::function<void()>& body, const std::vector<std::string>& parts) {
  in_both_orders([&] {
    const std::string message = error_of(body);
    for (const std::string& part : parts) {
      EXPECT_NE(message.find(part), std::string::npos) << "no '" << part << "' in: " << message;
    }
  });
}

__global__ void number_threads(int* out) {
  const int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const int threads = blockDim.x * blockDim.y * blockDim.z;
  out[block * threads + thread] += block * threads + thread;
}

TEST(GridTest, EveryThreadRunsOnceAndKnowsItsPlace) {
  std::vector<int> expected(2 * 3 * 4 * 5 * 6 * 7);
  std::iota(expected.begin(), expected.end(), 0);
  in_both_orders([&] {
    std::vector<int> out(expected.size());
    number_threads<<<dim3(2, 3, 4), dim3(5, 6, 7)>>>(out.data());
    EXPECT_EQ(out, expected);
  });
}

__global__ void order_of_threads(std::vector<int>* order) { order->push_back(threadIdx.x); }

TEST(GridTest, TheOrderCanBeTurnedRound) {
  std::vector<int> order;
  order_of_threads<<<1, 3>>>(&order);
  set_order(Order::kBackward);
  order_of_threads<<<1, 3>>>(&order);
  set_order(Order::kForward);
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 2, 1, 0}));
}

__global__ void take(const int* pointer, float number, int* out) {
  out[0] = pointer == nullptr ? 1 : 0;
  out[1] = static_cast<int>(number);
}

TEST(GridTest, ArgumentsAreConvertedToTheParameters) {
  int out[2] = {};
  take<<<1, 1>>>(0, 3, out);
  EXPECT_EQ(out[0], 1);
  EXPECT_EQ(out[1], 3);
}

TEST(GridTest, LaunchesBeyondTheLimitsFail) {
  std::vector<int> out(2048);
  const auto go = [&](dim3 grid, dim3 block, size_t shared = 0) {
    return error_of([&] { number_threads<<<grid, block, shared>>>(out.data()); });
  };
  EXPECT_NE(go(1, 1025).find("a block of (1025, 1, 1) threads"), std::string::npos);
  EXPECT_NE(go(1, dim3(1, 1, 65)).find("at most 64 in z"), std::string::npos);
  EXPECT_NE(go(0, 1).find("a grid of (0, 1, 1) blocks"), std::string::npos);
  EXPECT_NE(go(dim3(1, 65536), 1).find("65535 in y"), std::string::npos);
  EXPECT_NE(go(1, 1, 49153).find("expected at most 49152"), std::string::npos);
  EXPECT_EQ(
      cudaFuncSetAttribute(number_threads, cudaFuncAttributeMaxDynamicSharedMemorySize, 100'000),
      cudaSuccess);
  EXPECT_EQ(go(1, 1, 100'000), "no error");
  EXPECT_NE(go(1, 1, 100'001).find("expected at most 100000"), std::string::npos);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

__global__ void throw_from(unsigned thread) {
  if (threadIdx.x == thread) throw std::logic_error("from a thread");
  __syncthreads();
}

TEST(GridTest, WhatAThreadThrowsTheLaunchThrows) {
  EXPECT_THROW((throw_from<<<2, 64>>>(40)), std::logic_error);
  throw_from<<<2, 64>>>(64);
}

template <bool kBarrier>
__global__ void reverse_block(int* data) {
  __shared__ int room[64];
  room[threadIdx.x] = data[threadIdx.x];
  if (kBarrier) __syncthreads();
  data[threadIdx.x] = room[63 - threadIdx.x];
}

TEST(BarrierTest, SharedMemoryIsReadAfterAllHaveWritten) {
  std::vector<int> expected(64);
  std::iota(expected.rbegin(), expected.rend(), 0);
  in_both_orders([&] {
    std::vector<int> data(64);
    std::iota(data.begin(), data.end(), 0);
    reverse_block<true><<<1, 64>>>(data.data());
    EXPECT_EQ(data, expected);

    std::iota(data.begin(), data.end(), 0);
    reverse_block<false><<<1, 64>>>(data.data());
    EXPECT_NE(data, expected) << "a missing barrier is not seen";
  });
}

template <bool kBarrier>
__global__ void read_left_neighbour(int* data) {
  __shared__ int room[64];
  room[threadIdx.x] = data[threadIdx.x];
  if (kBarrier) __syncthreads();
  data[threadIdx.x] = threadIdx.x == 0 ? 0 : room[threadIdx.x - 1];
}

TEST(BarrierTest, OneOfTheTwoOrdersSeesAMissingBarrier) {
  int wrong = 0;
  in_both_orders([&] {
    std::vector<int> good(64, 1);
    std::vector<int> bad(64, 1);
    read_left_neighbour<true><<<1, 64>>>(good.data());
    read_left_neighbour<false><<<1, 64>>>(bad.data());
    if (good != bad) ++wrong;
  });
  EXPECT_EQ(wrong, 1);
}

__global__ void count_votes(int* out) {
  const bool odd = threadIdx.x % 2 != 0;
  out[0] = __syncthreads_count(odd);
  out[1] = __syncthreads_or(odd);
  out[2] = __syncthreads_and(odd);
  out[3] = __syncthreads_or(threadIdx.x == 1000);
  out[4] = __syncthreads_and(threadIdx.x < 1000);
}

TEST(BarrierTest, VotesAreCountedInTheBlock) {
  std::vector<int> out(5);
  count_votes<<<1, 100>>>(out.data());
  EXPECT_EQ(out, (std::vector<int>{50, 1, 0, 0, 1}));
}

__global__ void one_returns_early() {
  if (threadIdx.x == 5) return;
  __syncthreads();
}

__global__ void two_barriers() {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

TEST(BarrierTest, ABarrierThatNotAllReachIsAnError) {
  expect_error(
      [] { one_returns_early<<<2, 64>>>(); },
      {"wait for each other for ever", "5 from thread (0, 0, 0) on wait in __syncthreads at",
       "execution_test.cu:", "1 from thread (5, 0, 0) on returned"});
  expect_error([] { two_barriers<<<1, 64>>>(); },
               {"32 from thread (0, 0, 0) on wait", "32 from thread (32, 0, 0) on wait"});
}

template <typename T>
__global__ void shuffle_all(T* out) {
  const T own = static_cast<T>(static_cast<float>(threadIdx.x));
  T* const line = out + threadIdx.x;
  constexpr unsigned kAll = 0xffffffffU;
  line[0] = __shfl_sync(kAll, own, 3);
  line[32] = __shfl_xor_sync(kAll, own, 5);
  line[64] = __shfl_down_sync(kAll, own, 4);
  line[96] = __shfl_up_sync(kAll, own, 4);
  line[128] = __shfl_sync(kAll, own, 9, 8);
  line[160] = __shfl_down_sync(kAll, own, 3, 8);
  line[192] = __shfl_xor_sync(kAll, own, 8, 8);
}

template <typename T>
void check_shuffles() {
  std::vector<T> out(7 * 32);
  shuffle_all<T><<<1, 32>>>(out.data());
  for (int lane = 0; lane < 32; ++lane) {
    const int part = lane / 8 * 8;
    const int expected[] = {3,
                            lane ^ 5,
                            lane < 28 ? lane + 4 : lane,
                            lane < 4 ? lane : lane - 4,
                            part + 1,
                            lane % 8 < 5 ? lane + 3 : lane,
                            lane};
    for (int k = 0; k < 7; ++k) {
      EXPECT_EQ(static_cast<float>(out[32 * k + lane]), static_cast<float>(expected[k])) << k;
    }
  }
}

TEST(WarpTest, ShufflesReadTheLanesOfTheGuide) {
  in_both_orders([] {
    check_shuffles<float>();
    check_shuffles<double>();
    check_shuffles<int>();
    check_shuffles<__half>();
    check_shuffles<__nv_bfloat16>();
  });
}

__global__ void sum_of_warps(const float* x, float* out) {
  const int i = threadIdx.x + blockDim.x * threadIdx.y;
  float sum = x[i];
  for (int distance = 16; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(0xffffffffU, sum, distance);
  }
  out[i] = sum;
}

TEST(WarpTest, WarpsAreCountedThroughTheRowsOfABlock) {
  std::vector<float> x(128, 1);
  for (int i = 32; i < 64; ++i) x[i] = 2;
  std::vector<float> out(128);
  sum_of_warps<<<1, dim3(16, 8)>>>(x.data(), out.data());
  for (int i = 0; i < 128; ++i) EXPECT_EQ(out[i], i / 32 == 1 ? 64 : 32) << i;
}

__global__ void vote_in_parts(unsigned* out) {
  const unsigned mask = threadIdx.x < 20 ? 0x000fffffU : 0xfff00000U;
  const bool odd = threadIdx.x % 2 != 0;
  unsigned* const line = out + threadIdx.x;
  line[0] = __ballot_sync(mask, odd);
  line[32] = __any_sync(mask, threadIdx.x == 7);
  line[64] = __all_sync(mask, threadIdx.x >= 20);
  line[96] = __reduce_add_sync(mask, threadIdx.x);
  line[128] = __reduce_max_sync(mask, threadIdx.x);
  line[160] = __reduce_min_sync(mask, threadIdx.x);
  __syncwarp(mask);
}

TEST(WarpTest, LanesOfDisjointMasksVoteApart) {
  in_both_orders([] {
    std::vector<unsigned> out(6 * 32);
    vote_in_parts<<<1, 32>>>(out.data());
    for (unsigned lane = 0; lane < 32; ++lane) {
      const bool low = lane < 20;
      EXPECT_EQ(out[lane], low ? 0x000aaaaaU : 0xaaa00000U);
      EXPECT_EQ(out[32 + lane], low ? 1U : 0U);
      EXPECT_EQ(out[64 + lane], low ? 0U : 1U);
      EXPECT_EQ(out[96 + lane], low ? 190U : 306U);
      EXPECT_EQ(out[128 + lane], low ? 19U : 31U);
      EXPECT_EQ(out[160 + lane], low ? 0U : 20U);
    }
  });
}

__global__ void shuffle_with(unsigned mask, unsigned lanes, int source) {
  if (threadIdx.x < lanes) __shfl_sync(mask, 1, source);
}

__global__ void shuffle_apart() {
  if (threadIdx.x < 16) {
    __shfl_xor_sync(0xffffffffU, 1, 1);
  } else {
    __shfl_xor_sync(0xffffffffU, 1, 1);
  }
}

__global__ void shuffle_and_barrier() {
  if (threadIdx.x == 0) {
    __syncwarp();
  } else {
    __syncthreads();
  }
}

TEST(WarpTest, AMaskThatNamesLanesThatDoNotComeIsAnError) {
  expect_error([] { shuffle_with<<<1, 32>>>(0xffffffffU, 31, 0); },
               {"31 from thread (0, 0, 0) on wait in __shfl_sync with mask 0xffffffff at",
                "1 from thread (31, 0, 0) on returned"});
  expect_error([] { shuffle_with<<<1, 20>>>(0xffffffffU, 32, 0); }, {"20 from thread (0, 0, 0)"});
  expect_error([] { shuffle_apart<<<1, 32>>>(); },
               {"16 from thread (0, 0, 0)", "16 from thread (16, 0, 0)"});
  expect_error([] { shuffle_and_barrier<<<1, 32>>>(); }, {"__syncwarp", "__syncthreads"});
  expect_error([] { shuffle_with<<<1, 32>>>(0x0000ffffU, 32, 0); }, {"leaves out the thread"});
  expect_error([] { shuffle_with<<<1, 32>>>(0x0000ffffU, 16, 20); }, {"reads a lane"});
  EXPECT_EQ(error_of([] { shuffle_with<<<1, 32>>>(0x0000ffffU, 16, 3); }), "no error");
}

__global__ void read_what_nobody_wrote(float* out) {
  __shared__ float room[4];
  extern __shared__ float dynamic_room[];
  out[0] = room[2];
  out[1] = dynamic_room[1];
  room[2] = 1;
  dynamic_room[1] = 1;
}

TEST(SharedMemoryTest, EachBlockBeginsWithNan) {
  float out[2] = {};
  read_what_nobody_wrote<<<3, 1, 8>>>(out);
  EXPECT_TRUE(std::isnan(out[0]));
  EXPECT_TRUE(std::isnan(out[1]));
}

template <int kVariable>
__device__ int* variable() {
  __shared__ int value;
  return &value;
}

__global__ void write_variables(int* out) {
  __shared__ int first[2], second;
  extern __shared__ __align__(16) unsigned char bytes[];
  int* const room = reinterpret_cast<int*>(bytes);
  if (threadIdx.x == 0) {
    *variable<0>() = 1;
    *variable<1>() = 2;
    first[1] = 3;
    second = 4;
    room[7] = 5;
  }
  __syncthreads();
  if (threadIdx.x != 33) return;
  out[0] = *variable<0>();
  out[1] = *variable<1>();
  out[2] = first[1];
  out[3] = second;
  out[4] = room[7];
}

TEST(SharedMemoryTest, VariablesAreOfTheBlockAndOfTheInstance) {
  std::vector<int> out(5);
  write_variables<<<1, 64, 32>>>(out.data());
  EXPECT_EQ(out, (std::vector<int>{1, 2, 3, 4, 5}));
}

template <typename T>
__global__ void add_at_once(T* sum) {
  atomicAdd(sum, 1);
}

template <typename T>
void check_atomic_add() {
  T sum = 0;
  add_at_once<T><<<3, 100>>>(&sum);
  EXPECT_EQ(sum, T(300));
}

__global__ void other_atomics(int* values, unsigned* counters, int* old) {
  const int i = threadIdx.x;
  atomicMax(&values[0], i);
  atomicMin(&values[1], i);
  atomicSub(&values[2], i);
  atomicOr(&values[3], 1 << i);
  atomicAnd(&values[4], ~(1 << i));
  atomicXor(&values[5], 3);
  old[i] = atomicExch(&values[6], i);
  atomicCAS(&values[7], i, i + 1);
  atomicInc(&counters[0], 6);
  atomicDec(&counters[1], 6);
}

TEST(AtomicTest, AllThreadsCount) {
  check_atomic_add<int>();
  check_atomic_add<unsigned long long>();
  check_atomic_add<float>();
  check_atomic_add<double>();
  int values[8] = {2, 2, 0, 0, -1, 0, -1, 0};
  unsigned counters[2] = {0, 0};
  int old[8] = {};
  other_atomics<<<1, 8>>>(values, counters, old);
  EXPECT_EQ(std::vector<int>(values, values + 8),
            (std::vector<int>{7, 0, -28, 255, ~255, 0, 7, 8}));
  EXPECT_EQ(counters[0], 1U);
  EXPECT_EQ(counters[1], 6U);
  EXPECT_EQ(std::vector<int>(old, old + 8), (std::vector<int>{-1, 0, 1, 2, 3, 4, 5, 6}));
}

template <typename Vector>
__global__ void load_vector(const float* x, Vector* out) {
  *out = *reinterpret_cast<const Vector*>(x);
}

__global__ void read_table(const float (*table)[4], int i, float* out) { *out = (*table)[i]; }

TEST(AccessTest, WhatAGpuTrapsOnIsAnError) {
  alignas(16) float x[8] = {};
  float4 out;
  load_vector<float4><<<1, 1>>>(x + 4, &out);
  expect_error([&] { load_vector<float4><<<1, 1>>>(x + 1, &out); },
               {"a misaligned pointer to", "float4", "execution_test.cu:", "thread (0, 0, 0)"});
  expect_error([&] { load_vector<float4><<<1, 1>>>(nullptr, &out); }, {"a null pointer to"});
  const float table[4] = {};
  expect_error([&] { read_table<<<1, 1>>>(&table, 4, x); }, {"index 4 lies outside"});
}

__global__ void functions(float* out) {
  out[0] = rsqrtf(4.0f);
  out[1] = static_cast<float>(normcdf(-1.0));
  out[2] = __expf(1.0f);
  out[3] = __fdividef(3.0f, 2.0f);
  out[4] = __int_as_float(__float_as_int(1.5f));
  out[5] = __ldg(out);
  out[6] = static_cast<float>(max(2, 3) + min(2, 3));
  out[7] = max(std::numeric_limits<float>::quiet_NaN(), 1.0f);  // The guide: the number.
  out[8] = __half2float(__float2half(65519.0f));
  out[9] = __half2float(__float2half(65520.0f));
  out[10] = static_cast<float>(static_cast<__nv_bfloat16>(1.00390625f));  // A tie, to even.
  out[11] = static_cast<float>(__popc(0xf0) + __clz(1) + __ffs(4));
  out[12] = static_cast<float>(static_cast<__half>(5.9604645e-8f));
  out[13] = normcdff(-10.0f);
}

TEST(FunctionTest, NumbersAreThoseOfCuda) {
  float out[14] = {};
  functions<<<1, 1>>>(out);
  const float expected[] = {0.5f, 0.158655254f, 2.71828183f,    1.5f,          1.5f,
                            0.5f, 5.0f,         1.0f,           65504.0f,      INFINITY,
                            1.0f, 38.0f,        5.96046448e-8f, 7.6198530e-24f};
  for (int k = 0; k < 14; ++k) EXPECT_FLOAT_EQ(out[k], expected[k]) << k;
}

}  // namespace
}  // namespace scramjet::cuda_host
