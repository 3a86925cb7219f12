#include "amp/autocast.h"

#include <ATen/Parallel.h>
#include <ATen/ThreadLocalState.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/linear.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <type_traits>

namespace scramjet::amp {
namespace {

static_assert(!std::is_copy_constructible_v<Autocast> && !std::is_move_constructible_v<Autocast> &&
              !std::is_copy_assignable_v<Autocast> && !std::is_move_assignable_v<Autocast>);

struct State {
  bool enabled;
  at::ScalarType dtype;
  bool cache_enabled;
  int nesting;
  bool operator==(const State&) const = default;
};

std::ostream& operator<<(std::ostream& out, const State& state) {
  return out << "{enabled " << state.enabled << ", dtype " << state.dtype << ", cache "
             << state.cache_enabled << ", nesting " << state.nesting << '}';
}

State state_of(at::DeviceType device = at::kCPU) {
  at::autocast::increment_nesting();
  return {at::autocast::is_autocast_enabled(device), at::autocast::get_autocast_dtype(device),
          at::autocast::is_autocast_cache_enabled(), at::autocast::decrement_nesting()};
}

const State kOutside = {false, at::kBFloat16, true, 0};

class Warnings : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override { text += warning.msg(); }
  std::string text;

 private:
  c10::WarningUtils::WarningHandlerGuard guard_{this};
};

// torch::nn::Linear hands ATen its weight transposed, and views are not cached: this one is.
at::Tensor cached_linear(const torch::nn::Linear& linear, const at::Tensor& x) {
  return at::linear(x, linear->weight, linear->bias);
}

at::Tensor in_region(const torch::nn::Linear& linear, const at::Tensor& x) {
  const Autocast autocast(at::kCPU);
  return cached_linear(linear, x);
}

void add_one(const at::Tensor& weight) {
  const at::NoGradGuard no_grad;
  weight.add_(1);
}

class AutocastTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(state_of(), kOutside); }
  void TearDown() override { ASSERT_EQ(state_of(), kOutside); }

  torch::nn::Linear linear_{4, 4};
  at::Tensor x_ = at::randn({2, 4});
};

TEST_F(AutocastTest, RunsLinearInTheRegionsDtype) {
  {
    const Autocast autocast(at::kCPU);
    EXPECT_EQ(state_of(), (State{true, at::kBFloat16, true, 1}));
    EXPECT_EQ(linear_->forward(x_).scalar_type(), at::kBFloat16);
  }
  {
    const Autocast autocast(at::kCPU, {.dtype = at::kHalf});
    EXPECT_EQ(linear_->forward(x_).scalar_type(), at::kHalf);
  }
  EXPECT_EQ(linear_->forward(x_).scalar_type(), at::kFloat);
  EXPECT_EQ(linear_->weight.scalar_type(), at::kFloat);
}

TEST_F(AutocastTest, GradientsFlowAfterAPassWithoutThem) {
  for (const bool cached : {false, true}) {
    const Autocast autocast(at::kCPU);
    torch::nn::Linear linear(4, 4);
    {
      const at::NoGradGuard no_grad;
      cached ? cached_linear(linear, x_) : linear->forward(x_);
    }
    const at::Tensor y = cached ? cached_linear(linear, x_) : linear->forward(x_);
    ASSERT_NE(y.grad_fn(), nullptr);
    EXPECT_EQ(y.scalar_type(), at::kBFloat16);
    y.to(at::kFloat).square().sum().backward();
    ASSERT_TRUE(linear->weight.grad().defined());
    EXPECT_EQ(linear->weight.grad().scalar_type(), at::kFloat);
  }
}

TEST_F(AutocastTest, NoCastOutlivesTheOutermostRegion) {
  const at::Tensor before = in_region(linear_, x_);
  add_one(linear_->weight);
  EXPECT_FALSE(at::equal(before, in_region(linear_, x_)));
}

TEST_F(AutocastTest, NoCastOutlivesARegionThatAnExceptionEnds) {
  at::Tensor before;
  try {
    const Autocast autocast(at::kCPU);
    before = cached_linear(linear_, x_);
    throw std::runtime_error("x");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(state_of(), kOutside);
  add_one(linear_->weight);
  EXPECT_FALSE(at::equal(before, in_region(linear_, x_)));
}

TEST_F(AutocastTest, CastsOutliveAnInnerRegion) {
  const Autocast autocast(at::kCPU);
  const at::Tensor before = in_region(linear_, x_);
  add_one(linear_->weight);  // against the rules: that is how the cache shows
  EXPECT_TRUE(at::equal(before, in_region(linear_, x_)));
}

TEST_F(AutocastTest, NoCastIsKeptWithoutTheCache) {
  const Autocast autocast(at::kCPU, {.cache_enabled = false});
  EXPECT_EQ(state_of(), (State{true, at::kBFloat16, false, 1}));
  const at::Tensor before = cached_linear(linear_, x_);
  add_one(linear_->weight);
  EXPECT_FALSE(at::equal(before, cached_linear(linear_, x_)));
  {
    const Autocast inner(at::kCPU);
    EXPECT_FALSE(at::autocast::is_autocast_cache_enabled());
  }
  const Autocast cached(at::kCPU, {.cache_enabled = true});
  EXPECT_TRUE(at::autocast::is_autocast_cache_enabled());
}

TEST_F(AutocastTest, RegionsNestAndRestoreAlsoByException) {
  try {
    const Autocast autocast(at::kCPU, {.dtype = at::kHalf});
    {
      const Autocast off(at::kCPU, {.enabled = false});
      EXPECT_EQ(state_of(), (State{false, at::kHalf, true, 2}));
      EXPECT_EQ(linear_->forward(x_).scalar_type(), at::kFloat);
      const Autocast on_again(at::kCPU);
      EXPECT_EQ(state_of(), (State{true, at::kHalf, true, 3}));
    }
    EXPECT_EQ(linear_->forward(x_).scalar_type(), at::kHalf);
    throw std::runtime_error("x");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(state_of(), kOutside);
}

TEST_F(AutocastTest, AThreadBegunInARegionIsOutsideOfIt) {
  const Autocast autocast(at::kCPU);
  State seen{};
  at::ScalarType dtype{};
  std::thread([&] {
    seen = state_of();
    dtype = linear_->forward(x_).scalar_type();
  }).join();
  EXPECT_EQ(seen, kOutside);
  EXPECT_EQ(dtype, at::kFloat);
}

TEST_F(AutocastTest, ParallelForsOwnThreadsAreOutsideOfIt) {
  const Autocast autocast(at::kCPU);
  const std::thread::id caller = std::this_thread::get_id();
  std::mutex mutex;
  int others = 0;
  at::parallel_for(0, 64, 1, [&](int64_t, int64_t) {
    const bool is_caller = std::this_thread::get_id() == caller;
    const std::lock_guard lock(mutex);
    EXPECT_EQ(at::autocast::is_autocast_enabled(at::kCPU), is_caller);
    if (!is_caller) ++others;
  });
  EXPECT_EQ(others > 0, at::get_num_threads() > 1);
}

TEST_F(AutocastTest, LaunchedTasksTakeOverAllButTheCacheSwitch) {
  const Autocast autocast(at::kCPU, {.dtype = at::kHalf, .cache_enabled = false});
  State seen{};
  bool done = false;
  std::mutex mutex;
  std::condition_variable changed;
  at::launch([&] {
    const std::lock_guard lock(mutex);
    seen = state_of();
    done = true;
    changed.notify_one();
  });
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return done; });
  EXPECT_EQ(seen, (State{true, at::kHalf, true, 0}));
}

TEST_F(AutocastTest, BackwardsThreadsTakeOverAllButTheCacheSwitch) {
  // What autograd's engine does in its device threads, of which CPU has none.
  const Autocast autocast(at::kCPU, {.dtype = at::kHalf, .cache_enabled = false});
  const at::ThreadLocalState caller;
  State seen{};
  std::thread([&] {
    const at::ThreadLocalStateGuard guard(caller);
    seen = state_of();
  }).join();
  EXPECT_EQ(seen, (State{true, at::kHalf, true, 0}));
}

TEST_F(AutocastTest, WarnsAndStaysOffForAnotherDtype) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kInt}) {
    Warnings warnings;
    const Autocast autocast(at::kCPU, {.dtype = dtype});
    EXPECT_NE(warnings.text.find("bfloat16 or half"), std::string::npos) << warnings.text;
    EXPECT_NE(warnings.text.find(c10::toString(dtype)), std::string::npos) << warnings.text;
    EXPECT_EQ(state_of(), (State{false, dtype, true, 1}));
    EXPECT_EQ(linear_->forward(x_).scalar_type(), at::kFloat);
  }
}

TEST_F(AutocastTest, DoesNotWarnForADisabledRegion) {
  Warnings warnings;
  const Autocast autocast(at::kCPU, {.dtype = at::kFloat, .enabled = false});
  EXPECT_EQ(warnings.text, "");
}

TEST_F(AutocastTest, FailsOnADeviceWithoutAutocast) {
  try {
    const Autocast autocast(at::kMeta);
    FAIL();
  } catch (const c10::Error& error) {
    const std::string message = error.what_without_backtrace();
    EXPECT_NE(message.find("meta"), std::string::npos) << message;
    EXPECT_NE(message.find("cpu, cuda"), std::string::npos) << message;
  }
}

TEST_F(AutocastTest, WarnsAndStaysOffWithoutACudaDevice) {
  if (at::hasCUDA()) GTEST_SKIP() << "there is a CUDA device";
  Warnings warnings;
  const Autocast autocast(at::kCUDA);
  EXPECT_NE(warnings.text.find("no CUDA device"), std::string::npos) << warnings.text;
  EXPECT_EQ(state_of(at::kCUDA), (State{false, at::kHalf, true, 1}));
}

TEST_F(AutocastTest, DevicesAreApart) {
  const Autocast autocast(at::kXPU, {.dtype = at::kHalf});
  EXPECT_TRUE(at::autocast::is_autocast_enabled(at::kXPU));
  EXPECT_EQ(state_of(), (State{false, at::kBFloat16, true, 1}));
}

TEST_F(AutocastTest, DoubleAndIntegersAreNotCast) {
  const Autocast autocast(at::kCPU);
  const at::Tensor a = at::ones({2, 2}, at::kDouble);
  EXPECT_EQ(a.mm(a).scalar_type(), at::kDouble);
  EXPECT_EQ(a.to(at::kLong).mm(a.to(at::kLong)).scalar_type(), at::kLong);
}

}  // namespace
}  // namespace scramjet::amp
