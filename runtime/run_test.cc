#include "runtime/run.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include <thread>

#include "codegen/evaluate.h"
#include "runtime/output_memory.h"

namespace scramjet::runtime {
namespace {

c10::intrusive_ptr<KernelObject> parse(const std::string& text) {
  return KernelObject::from_text(text);
}

// relu, then x * x * x ..., 50 times.
std::string chain_text() {
  std::string text = "kernel v1 chain(1) {\n  %1 = aten::relu(%0)\n";
  for (int k = 2; k <= 51; ++k) {
    text += "  %" + std::to_string(k) + " = aten::mul.Tensor(%" + std::to_string(k - 1) + ", %1)\n";
  }
  return text + "  return %51\n}\n";
}

const char kAddTanh[] =
    "kernel v1 add_tanh(2) {\n  %2 = aten::add.Tensor(%0, %1, 1)\n  %3 = aten::tanh(%2)\n"
    "  return %3\n}\n";

TEST(Run, ChainIsEagersToTheBit) {
  const auto kernel = parse(chain_text());
  for (int64_t size : {1, 15, 16, 17, 1000, 100003}) {
    for (double shift : {0.0, 0.5}) {
      const at::Tensor x = at::rand({size}) + shift;  // [0, 1) makes denormals on the way
      EXPECT_EQ(why_op_by_op(*kernel, {x}), "");
      EXPECT_TRUE(run(*kernel, {x})[0].equal(codegen::evaluate(kernel->kernel(), {x})[0])) << size;
    }
  }
}

TEST(Run, NewSizesCompileNothing) {
  const auto kernel = parse(chain_text());
  run(*kernel, {at::rand({3, 5})});
  const int64_t before = compilations();
  for (int64_t k = 1; k <= 20; ++k) run(*kernel, {at::rand({k, 2 * k + 1})});
  EXPECT_EQ(compilations(), before);
}

TEST(Run, GradientsFlow) {
  const auto kernel = parse(kAddTanh);
  const at::Tensor x = at::randn({4, 3}).requires_grad_(), y = at::randn({3}).requires_grad_();
  EXPECT_EQ(why_op_by_op(*kernel, {x, y}), "an input requires a gradient");
  run(*kernel, {x, y})[0].sum().backward();
  const at::Tensor slope = 1 - (x + y).tanh().square();
  EXPECT_TRUE(x.grad().allclose(slope));
  EXPECT_TRUE(y.grad().allclose(slope.sum(0)));
  const at::NoGradGuard no_grad;
  EXPECT_EQ(why_op_by_op(*kernel, {x, y}), "");
}

TEST(Run, FollowsAutocast) {
  const auto kernel = parse(kAddTanh);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  EXPECT_EQ(why_op_by_op(*kernel, {at::rand({3}), at::rand({3})}), "autocast is on");
  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::autocast::clear_cache();
}

TEST(Run, ErrorsAreEagers) {
  const auto kernel = parse(kAddTanh);
  EXPECT_THROW(run(*kernel, {at::rand({3}), at::rand({4})}), c10::Error);
  EXPECT_THROW(run(*kernel, {at::rand({3})}), c10::ValueError);
  EXPECT_THROW(run(*kernel, {at::rand({3}), at::Tensor()}), c10::Error);
}

TEST(Run, TensorsThatOnlyTheDispatcherKnows) {
  const auto kernel = parse(kAddTanh);
  const at::Tensor x = at::rand({2, 3});
  EXPECT_EQ(run(*kernel, {x.to(at::kMeta), x.to(at::kMeta)})[0].sizes(), x.sizes());
  const at::Tensor complex = at::rand({3}, at::kComplexFloat);
  const std::vector<at::Tensor> odd = {complex.conj(), at::rand({3})};
  EXPECT_NE(why_op_by_op(*kernel, odd), "");
  EXPECT_TRUE(run(*kernel, odd)[0].allclose((odd[0] + odd[1]).tanh()));
}

TEST(Run, WritesOverAnInputThatNobodyElseHolds) {
  const auto kernel = parse(kAddTanh);
  std::vector<at::Tensor> inputs = {at::rand({1000}), at::rand({1000})};
  const at::Tensor want = (inputs[0] + inputs[1]).tanh();
  const void* memory = inputs[0].const_data_ptr();
  const at::Tensor got = run(*kernel, std::move(inputs))[0];
  EXPECT_EQ(got.const_data_ptr(), memory);
  EXPECT_TRUE(got.allclose(want));
}

TEST(Run, NeverWritesOverMemoryThatOthersSee) {
  const auto kernel = parse(kAddTanh);
  const at::Tensor held = at::rand({1000}), copy = held.clone();
  run(*kernel, {held, held});
  EXPECT_TRUE(held.equal(copy));
  run(*kernel, {held.view({10, 100}), held.view({10, 100})});  // a view shares its storage
  EXPECT_TRUE(held.equal(copy));
  std::vector<float> outside(1000, 0.5f);
  run(*kernel, {at::from_blob(outside.data(), {1000}), at::rand({1000})});
  EXPECT_EQ(outside, std::vector<float>(1000, 0.5f));
}

TEST(Run, SeveralOutputs) {
  const auto kernel = parse(
      "kernel v1 two(2) {\n  %2 = aten::mul.Tensor(%0, %1)\n  %3 = aten::gt.Scalar(%2, 0)\n"
      "  %4 = aten::add.Tensor(%2, %0, 1)\n  return %2, %3, %4\n}\n");
  const std::vector<at::Tensor> inputs = {at::randn({7, 9}), at::randn({9})};
  EXPECT_EQ(why_op_by_op(*kernel, inputs), "");
  const auto got = run(*kernel, inputs), want = codegen::evaluate(kernel->kernel(), inputs);
  for (size_t k = 0; k < want.size(); ++k) EXPECT_TRUE(got[k].equal(want[k])) << k;
}

TEST(Run, AnOutputSmallerThanAnotherOperand) {
  const auto kernel = parse(
      "kernel v1 small(2) {\n  %2 = aten::tanh(%0)\n  %3 = aten::mul.Tensor(%2, %1)\n"
      "  return %2, %3\n}\n");
  const auto outputs = run(*kernel, {at::rand({3}), at::rand({5, 3})});
  EXPECT_EQ(outputs[0].sizes(), at::IntArrayRef({3}));
  EXPECT_EQ(outputs[1].sizes(), at::IntArrayRef({5, 3}));
}

TEST(Run, ManyThreads) {
  const auto kernel = parse(chain_text());
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const at::ScalarType dtype = t % 2 ? at::kFloat : at::kDouble;
      for (int k = 0; k < 20; ++k) {
        const at::Tensor x = at::rand({100 + t, 7}).to(dtype);
        if (!run(*kernel, {x})[0].equal(codegen::evaluate(kernel->kernel(), {x})[0])) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(KernelObject, TextKeepsItsOptions) {
  const std::string text = "option fast_math\noption round_once\n" + chain_text();
  EXPECT_EQ(parse(text)->text(), text);
  EXPECT_TRUE(parse(text)->options().fast_math);
  EXPECT_FALSE(parse(text)->options().round_like_eager);
}

TEST(OutputMemory, LargeBlocksAreReused) {
  empty_output_cache();
  const std::vector<int64_t> sizes = {1 << 20}, strides = {1};
  at::Tensor block = allocate_output(sizes, strides, at::kFloat);
  const void* memory = block.const_data_ptr();
  EXPECT_EQ(cached_output_bytes(), 0);
  block.reset();
  EXPECT_EQ(cached_output_bytes(), 4 << 20);
  block = allocate_output(sizes, strides, at::kFloat);
  EXPECT_EQ(block.const_data_ptr(), memory);
  block.reset();
  empty_output_cache();
  EXPECT_EQ(cached_output_bytes(), 0);
}

TEST(OutputMemory, TensorsFromItAreOrdinary) {
  at::Tensor block = allocate_output({1 << 20}, {1}, at::kFloat);
  block.fill_(1);
  block.resize_({2 << 20});  // grows by the storage's own allocator
  EXPECT_EQ(block[5].item().toFloat(), 1);
  EXPECT_TRUE(block.clone().slice(0, 0, 10).equal(at::ones({10})));
}

}  // namespace
}  // namespace scramjet::runtime
