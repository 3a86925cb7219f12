#include "scripting/read_input.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sndfile.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <cstdlib>
#include <fstream>
#include <xtensor/xarray.hpp>
#include <xtensor/xnpy.hpp>

namespace scramjet {
namespace {

std::string temporary(const std::string& name) {
  const char* folder = std::getenv("TEST_TMPDIR");
  return std::string(folder != nullptr ? folder : "/tmp") + "/" + name;
}

std::string complaint(const std::string& text) {
  try {
    read_input(text);
  } catch (const c10::ValueError& error) {
    return error.what_without_backtrace();
  }
  return "none";
}

TEST(ReadInput, Shapes) {
  const at::Tensor x = read_input("2x3:float").toTensor();
  EXPECT_EQ(x.sizes(), at::IntArrayRef({2, 3}));
  EXPECT_EQ(x.scalar_type(), at::kFloat);
  EXPECT_EQ(read_input("5:int64").toTensor().scalar_type(), at::kLong);
  EXPECT_EQ(read_input("scalar:bfloat16").toTensor().dim(), 0);
  EXPECT_EQ(describe_value(x), "2x3:float");
  EXPECT_EQ(describe_value(at::ones({}, at::kBool)), "scalar:bool");
}

TEST(ReadInput, Numbers) {
  EXPECT_EQ(read_input("int=16000").toInt(), 16000);
  EXPECT_EQ(read_input("float=0.5").toDouble(), 0.5);
  EXPECT_TRUE(read_input("bool=true").toBool());
  EXPECT_TRUE(read_input("none").isNone());
}

TEST(ReadInput, Files) {
  const std::string npy = temporary("x.npy");
  xt::dump_npy(npy, xt::xarray<double>({{1.5, 2.5}, {3.5, 4.5}}));
  EXPECT_TRUE(
      read_input(npy).toTensor().equal(at::tensor({1.5, 2.5, 3.5, 4.5}, at::kDouble).view({2, 2})));

  const std::string wav = temporary("x.wav");
  SF_INFO info{0, 16000, 2, SF_FORMAT_WAV | SF_FORMAT_PCM_16, 0, 0};
  SNDFILE* file = sf_open(wav.c_str(), SFM_WRITE, &info);
  const float samples[] = {0.5f, -0.5f, 0.25f, 0.0f};
  sf_writef_float(file, samples, 2);
  sf_close(file);
  EXPECT_TRUE(read_input(wav).toTensor().allclose(
      at::tensor({0.5f, 0.25f, -0.5f, 0.0f}).view({2, 2}), 0, 1e-3));

  const std::string pt = temporary("x.pt");
  const std::vector<char> bytes = torch::jit::pickle_save(at::ones({3}));
  std::ofstream(pt, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  EXPECT_TRUE(read_input(pt).toTensor().equal(at::ones({3})));
}

TEST(ReadInput, MistakesNameTheTextAndWhatWasExpected) {
  for (const auto& [text, expected] : std::vector<std::pair<std::string, std::string>>{
           {"2x3", "expected a shape such as"},
           {"2x3:floaty", "'floaty' is no dtype; expected one of"},
           {"2xq:float", "'q' is not a number"},
           {"-2:float", "a size is negative"},
           {"int=x", "'x' is not a number"},
           {"number=3", "expected int=N"},
           {"missing.npy", "cannot open the file"}}) {
    EXPECT_NE(complaint(text).find("--input '" + text + "'"), std::string::npos) << complaint(text);
    EXPECT_NE(complaint(text).find(expected), std::string::npos) << complaint(text);
  }
  const std::string damaged = temporary("damaged.npy");
  std::ofstream(damaged) << "not numpy";
  EXPECT_NE(complaint(damaged).find("not a .npy file"), std::string::npos) << complaint(damaged);
}

}  // namespace
}  // namespace scramjet
