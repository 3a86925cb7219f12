// What unscaling does to gradients of each kind, and where the scale itself ends.
#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "amp/grad_scaler.h"
#include "amp/raises.h"

namespace scramjet::amp {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// A scaler in the middle of an iteration, and an SGD whose parameters have these gradients.
struct Iteration {
  explicit Iteration(const std::vector<at::Tensor>& gradients, double scale = 8)
      : scaler(at::kCPU, GradScalerOptions().init_scale(scale).growth_interval(1)) {
    for (const at::Tensor& gradient : gradients) {
      at::Tensor parameter = at::ones(gradient.sizes(), gradient.options().layout(at::kStrided));
      parameter.requires_grad_().mutable_grad() = gradient;
      parameters.push_back(parameter);
    }
    optimizer = std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(1));
    scaler.scale(at::ones({}));
  }

  bool found_inf() const {
    bool found = false;
    for (const auto& [device, flag] : scaler.found_inf_per_device(*optimizer)) {
      found = found || flag.item<float>() != 0;
    }
    return found;
  }

  GradScaler scaler;
  std::vector<at::Tensor> parameters;
  std::unique_ptr<torch::optim::SGD> optimizer;
};

TEST(GradScalerGradients, FindsOneBadValueAnywhere) {
  for (const int64_t size : {1, 7, 64, 1001}) {
    for (const float bad : {kInf, -kInf, kNaN}) {
      for (const int64_t at : {int64_t{0}, size / 2, size - 1}) {
        Iteration iteration({at::ones({3}), at::ones({size})});
        iteration.parameters[1].grad()[at] = bad;
        const StepResult result = iteration.scaler.step(*iteration.optimizer);
        EXPECT_TRUE(result.skipped()) << bad << " at " << at << " of " << size;
        EXPECT_TRUE(iteration.parameters[0].equal(at::ones({3})));
        iteration.scaler.update();
        EXPECT_EQ(iteration.scaler.get_scale(), 4);
      }
    }
  }
}

TEST(GradScalerGradients, UnscalesDenormalsAndExtremesExactly) {
  const float tiny = std::numeric_limits<float>::denorm_min() * 800;
  const at::Tensor gradient =
      at::tensor({tiny, -tiny, -0.F, std::numeric_limits<float>::max(), 1.F});
  const at::Tensor expected = gradient * .125F;
  Iteration iteration({gradient});
  iteration.scaler.unscale_(*iteration.optimizer);
  EXPECT_FALSE(iteration.found_inf());
  EXPECT_TRUE(gradient.equal(expected));
  EXPECT_EQ(gradient[0].item<float>(), tiny / 8);
}

TEST(GradScalerGradients, MixesDtypes) {
  const std::vector<at::ScalarType> dtypes = {at::kFloat, at::kDouble, at::kBFloat16, at::kFloat};
  for (size_t bad = 0; bad <= dtypes.size(); ++bad) {
    std::vector<at::Tensor> gradients;
    gradients.reserve(dtypes.size());
    for (const at::ScalarType dtype : dtypes) gradients.push_back(at::full({5}, 16, dtype));
    if (bad < dtypes.size()) gradients[bad][2] = kNaN;
    Iteration iteration(gradients);
    iteration.scaler.unscale_(*iteration.optimizer);
    EXPECT_EQ(iteration.found_inf(), bad < dtypes.size());
    for (const at::Tensor& gradient : gradients) EXPECT_EQ(gradient[0].item<float>(), 2);
    EXPECT_EQ(iteration.scaler.step(*iteration.optimizer).skipped(), bad < dtypes.size());
  }
}

// CUDA's kernel takes one dtype at a time; CPU's takes any, so that only counting shows the groups.
TEST(GradScalerGradients, OneCallForEachDtype) {
  Iteration iteration({at::ones({2}), at::ones({2}, at::kDouble), at::ones({3}),
                       at::ones({4}, at::kBFloat16), at::ones({5}, at::kDouble)});
  static std::vector<size_t> tensors_of_calls;
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback([](const at::RecordFunction& call)
                                     -> std::unique_ptr<at::ObserverContext> {
        if (std::string(call.name()) == "aten::_amp_foreach_non_finite_check_and_unscale_") {
          tensors_of_calls.push_back(call.inputs()[0].toTensorVector().size());
        }
        return nullptr;
      }).needsInputs(true));
  iteration.scaler.unscale_(*iteration.optimizer);
  at::removeCallback(handle);
  EXPECT_EQ(tensors_of_calls, std::vector<size_t>({2, 2, 1}));
}

TEST(GradScalerGradients, ParametersOnCpuAndCuda) {
  if (!at::hasCUDA()) GTEST_SKIP() << "needs CUDA";
  const at::Device cuda(at::kCUDA, 0);
  for (const bool bad_on_cuda : {false, true}) {
    const at::Tensor on_cuda = at::full({4}, 16., cuda);
    const at::Tensor on_cpu = at::full({4}, 16.);
    (bad_on_cuda ? on_cuda : on_cpu)[3] = kInf;
    Iteration iteration({on_cpu, on_cuda});
    EXPECT_TRUE(iteration.scaler.step(*iteration.optimizer).skipped());
    EXPECT_EQ(on_cuda[0].item<float>(), 2);
    EXPECT_EQ(on_cpu[0].item<float>(), 2);
    iteration.scaler.update();
    EXPECT_EQ(iteration.scaler.get_scale(), 4);
  }
}

TEST(GradScalerGradients, EmptyAndMissingOnes) {
  Iteration iteration({at::empty({0}), at::ones({2, 0, 3}), at::ones({2})});
  iteration.parameters[2].mutable_grad().reset();
  EXPECT_TRUE(iteration.scaler.step(*iteration.optimizer).updated());
  EXPECT_TRUE(iteration.parameters[2].equal(at::ones({2})));
  iteration.scaler.update();
  EXPECT_EQ(iteration.scaler.get_scale(), 16);
}

TEST(GradScalerGradients, NonContiguousOnes) {
  const at::Tensor gradient = at::full({3, 4}, 16.).t();
  const at::Tensor strided = at::full({6, 4}, 16.).slice(0, 0, 6, 2);
  Iteration iteration({gradient, strided});
  strided[1][1] = kInf;
  iteration.scaler.unscale_(*iteration.optimizer);
  EXPECT_TRUE(iteration.found_inf());
  EXPECT_TRUE(gradient.equal(at::full({4, 3}, 2.)));
  EXPECT_EQ(strided[2][3].item<float>(), 2);
}

TEST(GradScalerGradients, Float16IsRefusedBeforeAnythingChanges) {
  const at::Tensor single = at::full({2}, 16.);
  Iteration iteration({single, at::ones({2}, at::kHalf)});
  const char* const phrase = "Attempting to unscale FP16 gradients.";
  EXPECT_TRUE(
      raises<c10::ValueError>(phrase, [&] { iteration.scaler.unscale_(*iteration.optimizer); }));
  EXPECT_TRUE(
      raises<c10::ValueError>(phrase, [&] { iteration.scaler.step(*iteration.optimizer); }));
  EXPECT_TRUE(single.equal(at::full({2}, 16.)));
  // Looking without unscaling is allowed, as is bfloat16.
  iteration.scaler.check_inf_per_device(*iteration.optimizer);
  EXPECT_FALSE(iteration.found_inf());
  Iteration bfloat16({at::ones({2}, at::kBFloat16)});
  EXPECT_TRUE(bfloat16.scaler.step(*bfloat16.optimizer).updated());
}

TEST(GradScalerGradients, CheckLeavesGradientsScaled) {
  Iteration iteration({at::full({2}, 16.), at::full({2}, kInf)});
  const auto flags = iteration.scaler.check_inf_per_device(*iteration.optimizer);
  EXPECT_EQ(flags.at(at::Device(at::kCPU)).item<float>(), 1);
  EXPECT_EQ(iteration.parameters[0].grad()[0].item<float>(), 16);
  iteration.scaler.unscale_(*iteration.optimizer);  // still allowed, once
  EXPECT_EQ(iteration.parameters[0].grad()[0].item<float>(), 2);
}

at::Tensor sparse(const std::vector<float>& values, at::ScalarType dtype) {
  const at::Tensor row = at::zeros({1, static_cast<int64_t>(values.size())}, at::kLong);
  return at::sparse_coo_tensor(row, at::tensor(values).to(dtype), {4});
}

TEST(GradScalerGradients, SparseOnes) {
  Iteration iteration({sparse({8, 16}, at::kFloat)});
  iteration.scaler.unscale_(*iteration.optimizer);
  EXPECT_FALSE(iteration.found_inf());
  const at::Tensor gradient = iteration.parameters[0].grad();
  EXPECT_TRUE(gradient.is_sparse());
  EXPECT_FALSE(gradient.is_coalesced());
  EXPECT_EQ(gradient.to_dense()[0].item<float>(), 3);
  Iteration bad({sparse({8, kNaN}, at::kFloat)});
  bad.scaler.unscale_(*bad.optimizer);
  EXPECT_TRUE(bad.found_inf());
}

// Each entry is finite; their sum, which a step would add, is not.
TEST(GradScalerGradients, SparseFloat16IsCoalescedFirst) {
  Iteration iteration({sparse({40000, 40000}, at::kHalf)});
  iteration.scaler.check_inf_per_device(*iteration.optimizer);
  EXPECT_TRUE(iteration.found_inf());
  EXPECT_TRUE(iteration.parameters[0].grad().is_coalesced());
  EXPECT_TRUE(raises<c10::ValueError>("Attempting to unscale FP16 gradients",
                                      [&] { iteration.scaler.unscale_(*iteration.optimizer); }));
}

TEST(GradScalerScale, NeverGrowsToInf) {
  const double large = 0x1p127;
  Iteration iteration({at::zeros({2})}, large);
  iteration.scaler.step(*iteration.optimizer);
  iteration.scaler.update();
  EXPECT_EQ(iteration.scaler.get_scale(), large);
  EXPECT_EQ(iteration.scaler.get_growth_tracker(), 0);
}

// As in Python: the check comes before the multiplication by 1 / 0.
TEST(GradScalerScale, MayShrinkToZero) {
  Iteration iteration({at::full({2}, kInf)}, std::numeric_limits<float>::denorm_min());
  EXPECT_TRUE(iteration.scaler.step(*iteration.optimizer).skipped());
  iteration.scaler.update();
  EXPECT_EQ(iteration.scaler.get_scale(), 0);
  iteration.parameters[0].grad().zero_();
  EXPECT_TRUE(iteration.scaler.step(*iteration.optimizer).updated());
  EXPECT_TRUE(iteration.parameters[0].isnan().all().item<bool>());
  iteration.scaler.update();
  EXPECT_EQ(iteration.scaler.get_scale(), 0);
  iteration.scaler.update(1.);
  EXPECT_EQ(iteration.scaler.get_scale(), 1);
}

}  // namespace
}  // namespace scramjet::amp
