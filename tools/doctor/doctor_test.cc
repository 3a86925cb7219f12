#include "tools/doctor/doctor.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "amp/raises.h"

namespace scramjet {
namespace {

::testing::AssertionResult has(const std::string& text, const std::string& phrase) {
  if (text.find(phrase) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "no '" << phrase << "' in\n" << text;
}

/// linear's results are 4 * x, and mul_'s their squares.
torch::jit::Module net() {
  torch::jit::Module module("Net");
  module.register_parameter("weight", at::ones({4, 4}).requires_grad_(), false);
  module.define("def forward(self, x):\n    y = torch.linear(x, self.weight)\n    return y * y\n");
  return module;
}

amp::Inspection inspect_with_loss(const at::Tensor& x, c10::ScalarType dtype = c10::kHalf) {
  amp::InspectOptions options;
  options.dtype = dtype;
  options.loss = loss_named("mean", std::nullopt);
  return amp::inspect(net(), {x}, options);
}

TEST(Doctor, SaysWhatToKeepAndHow) {
  const amp::Inspection found = amp::inspect(net(), {at::full({2, 4}, 100.f)});
  const std::string text = diagnosis_text(
      found, try_autocast(net(), {at::full({2, 4}, 100.f)}, c10::kHalf, found.keep_in_fp32()));
  EXPECT_TRUE(has(text, "fp16: largest 6.55e+04, smallest normal 6.1e-05"));
  EXPECT_TRUE(has(text, R"(
Keep in float32:
  aten::mul.Tensor in (model): 8 of 8 results overflow, the largest is 160000
  Python: scramjet.compile(model, autocast=torch.float16, autocast_overrides={"aten::mul.Tensor": "fp32"})
  C++:    options.autocast->overrides = {{"aten::mul.Tensor", "fp32"}};
Tried: under autocast the output is off by inf of its size, with the above in float32 by 0.
)"));
}

TEST(Doctor, SaysWhereNothingIsWrong) {
  const at::Tensor x = at::ones({2, 4});
  const std::string text =
      diagnosis_text(amp::inspect(net(), {x}), try_autocast(net(), {x}, c10::kHalf, {}));
  EXPECT_TRUE(has(text,
                  "Nothing has to stay in float32 beside what autocast keeps there.\n"
                  "Tried: under autocast the output is off by 0 of its size.\n"));
  EXPECT_FALSE(has(text, "gradient of"));
  EXPECT_FALSE(has(text, "GradScaler"));
}

TEST(Doctor, ListsEveryLayerWithItsShares) {
  const std::string text = diagnosis_text(inspect_with_loss(at::full({2, 4}, 100.f)), std::nullopt);
  // Each row ends in a histogram.
  EXPECT_TRUE(has(text, "\ninput 0                            "));
  EXPECT_TRUE(has(text, "aten::linear          1      fp16      400         -        -"));
  EXPECT_TRUE(has(text, "aten::mul.Tensor      1      fp16  1.6e+05      100%        -"));
  EXPECT_TRUE(has(text, "█"));
}

TEST(Doctor, ListsGradientsAndTheScaleToStartAt) {
  const amp::Inspection found = inspect_with_loss(at::full({2, 4}, 1e-3f));
  // mean over 8 of y²: dy = 2 y / 8 = 1e-3, and a weight's is 2 * 1e-3 * 1e-3.
  const std::string text = diagnosis_text(found, std::nullopt);
  EXPECT_TRUE(has(text, "gradient of"));
  EXPECT_TRUE(has(text, "flushed at 65536"));
  EXPECT_TRUE(has(text,
                  "Start the GradScaler at 65536 (init_scale; default 65536): the "
                  "largest gradient is 0.125.\n"));
  EXPECT_FALSE(
      has(diagnosis_text(inspect_with_loss(at::ones({2, 4}), c10::kBFloat16), std::nullopt),
          "GradScaler"));
}

TEST(Doctor, MarksInfinitiesAndNaNs) {
  const at::Tensor x = at::tensor({1.f, INFINITY, NAN, 1.f}).reshape({1, 4});
  EXPECT_TRUE(has(diagnosis_text(amp::inspect(net(), {x}), std::nullopt), "nan, 1  "));
}

TEST(Doctor, WritesTheSameNumbersAsJson) {
  const amp::Inspection found = inspect_with_loss(at::full({2, 4}, 100.f));
  // As a reader gets it: JSON has no infinity.
  const nlohmann::json json = nlohmann::json::parse(diagnosis_json(found, std::nullopt).dump());
  EXPECT_EQ(json["format"]["name"], "fp16");
  EXPECT_EQ(json["format"]["max"], 65504);
  EXPECT_EQ(json["keep_in_fp32"], nlohmann::json({"aten::mul.Tensor"}));
  EXPECT_EQ(json["starting_scale"], *found.starting_scale());
  EXPECT_EQ(json["autocast"], nullptr);
  ASSERT_EQ(json["operators"].size(), 2);
  const nlohmann::json& mul = json["operators"][1];
  EXPECT_EQ(mul["op"], "aten::mul.Tensor");
  EXPECT_EQ(mul["outputs"]["overflowed"], 8);
  EXPECT_EQ(mul["outputs"]["exponents"], nlohmann::json({{"17", 8}}));
  EXPECT_EQ(mul["error"], nullptr);  // it is infinite
  EXPECT_EQ(json["parameters"][0]["name"], "weight");
  EXPECT_EQ(json["parameters"][0]["gradients"]["count"], 16);
}

TEST(Doctor, SaysWhyAutocastCouldNotBeTried) {
  torch::jit::Module module("Net");
  module.define("def forward(self, x):\n    return x.size(0)\n");
  const AutocastTrial trial = try_autocast(module, {at::ones({2})}, c10::kHalf, {});
  EXPECT_EQ(trial.failed, "the model answers without floating-point tensors");
  EXPECT_TRUE(has(diagnosis_text(amp::inspect(module, {at::ones({2})}), trial),
                  "Autocast could not be tried: the model answers without"));
}

TEST(Doctor, LossesAreByName) {
  const at::Tensor output = at::arange(6.f).reshape({2, 3});
  const at::Tensor zeros = at::zeros({2, 3});
  const at::Tensor labels = at::tensor({2, 2}, at::kLong);
  const auto value = [&](const char* name, const std::optional<at::Tensor>& target,
                         const c10::IValue& answer) {
    return loss_named(name, target)(answer).item<float>();
  };
  EXPECT_EQ(value("sum", std::nullopt, output), 15);
  EXPECT_EQ(value("mean", std::nullopt, output), 2.5);
  EXPECT_EQ(value("output", std::nullopt, at::full({}, 7.f)), 7);
  EXPECT_FLOAT_EQ(value("mse", zeros, output), 55.f / 6);
  EXPECT_FLOAT_EQ(value("cross_entropy", labels, output), 0.4076059f);
  // Of several answers, the first.
  EXPECT_EQ(value("sum", std::nullopt, c10::ivalue::Tuple::create({output, zeros})), 15);
}

TEST(Doctor, BadLossesAreRefused) {
  using amp::raises;
  EXPECT_TRUE(raises<c10::ValueError>("doctor: --loss mse needs a --target",
                                      [] { loss_named("mse", std::nullopt); }));
  EXPECT_TRUE(raises<c10::ValueError>("doctor: --loss sum takes no --target",
                                      [] { loss_named("sum", at::ones({})); }));
  EXPECT_TRUE(raises<c10::ValueError>("got 'huber'", [] { loss_named("huber", std::nullopt); }));
  EXPECT_TRUE(raises<c10::ValueError>("the model answers with Int",
                                      [] { loss_named("sum", std::nullopt)(c10::IValue(3)); }));
}

}  // namespace
}  // namespace scramjet
