#include "codegen/kernel.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

namespace scramjet::codegen {
namespace {

const char kText[] = R"(kernel v1 relu_mul_clamp_gelu(2) {
  %2 = aten::relu(%0)
  %3 = aten::mul.Tensor(%2, %1)
  %4 = aten::clamp(%3, none, 0.1)
  %5 = aten::gelu(%4, "tanh")
  %6 = aten::add.Scalar(%5, -inf, 1)
  return %6, %3
}
)";

TEST(KernelText, ReadsBackWhatItWrites) {
  const Kernel kernel = Kernel::parse(kText);
  EXPECT_EQ(kernel.text(), kText);
  EXPECT_EQ(kernel.num_inputs, 2);
  EXPECT_EQ(kernel.nodes.size(), 5u);
}

TEST(KernelText, EveryConstantSurvives) {
  for (const char* constant : {"0.1", "1e-45", "-0.0", "1e+300", "nan", "inf", "-inf",
                               "9007199254740993", "2.0", "0.30000000000000004"}) {
    const std::string text = std::string("kernel v1 mul(1) {\n  %1 = aten::mul.Scalar(%0, ") +
                             constant + ")\n  return %1\n}\n";
    EXPECT_EQ(Kernel::parse(text).text(), text);
  }
}

// What is wrong with a text, as the parser says it.
std::string complaint(const std::string& text) {
  try {
    Kernel::parse(text);
  } catch (const c10::ValueError& error) {
    return error.what_without_backtrace();
  }
  return "accepted";
}

TEST(KernelText, BadTextIsRejectedByLineAndReason) {
  const std::string head = "kernel v1 k(1) {\n";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "line 0: the text ends"},
      {"kernel v2 k(1) {\n", "line 1: expected 'kernel v1"},
      {"kernel v1 k-k(1) {\n", "line 1: a kernel's name"},
      {"kernel v1 k(0) {\n", "line 1: a kernel has 1 to"},
      {"kernel v1 k(99999999999) {\n", "line 1: expected a number"},
      {head + "  %1 = aten::system(%0)\n", "line 2: unknown op 'aten::system'"},
      {head + "  %1 = aten::relu(%1)\n", "line 2: %1 is not defined"},
      {head + "  %2 = aten::relu(%0)\n", "line 2: values are numbered"},
      {head + "  %1 = aten::relu(3)\n", "line 2: aten::relu: argument 'self' wants Tensor, got 3"},
      {head + "  %1 = aten::relu(%0, %0)\n", "line 2: expected ')'"},
      {head + "  %1 = aten::mul.Tensor(%0)\n", "line 2: expected ','"},
      {head + "  %1 = aten::gelu(%0, tanh)\n", "line 2: 'tanh' is not a constant"},
      {head + "  %1 = aten::to.dtype(%0, 4000, false, false, none)\n",
       "line 2: no dtype has number 4000"},
      {head + "  %1 = aten::relu(%0)\n  return %0\n}\n", "line 3: an input cannot be returned"},
      {head + "  %1 = aten::relu(%0)\n  return %5\n}\n", "line 3: %5 is not defined"},
      {head + "  %1 = aten::relu(%0)\n}\n", "line 3: expected '%'"},
      {head + "  %1 = aten::relu(%0)\n  return %1\n", "the text ends before its closing brace"},
      {head + "  %1 = aten::relu(%0)\n  return %1\n}\nmore\n", "line 5: unexpected 'more'"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_NE(complaint(text).find(expected), std::string::npos) << complaint(text) << "\nfor\n"
                                                                 << text;
  }
}

// Every prefix and every single changed letter: an error or a valid kernel, never a crash.
TEST(KernelText, DamagedTextNeverCrashes) {
  const std::string text = kText;
  for (size_t k = 0; k < text.size(); ++k) {
    complaint(text.substr(0, k));
    for (char letter : {'%', '9', ' ', '\n', '\0', '"', '-'}) {
      std::string damaged = text;
      damaged[k] = letter;
      complaint(damaged);
    }
  }
}

TEST(KernelText, TooLongIsRejected) {
  std::string text = "kernel v1 k(1) {\n";
  for (size_t k = 1; k <= Kernel::kMaxNodes + 1; ++k)
    text += "  %" + std::to_string(k) + " = aten::relu(%0)\n";
  EXPECT_NE(complaint(text).find("at most"), std::string::npos);
}

TEST(Describe, CountsRuns) {
  const Kernel kernel = Kernel::parse(
      "kernel v1 x(1) {\n  %1 = aten::relu(%0)\n  %2 = aten::mul.Tensor(%1, %1)\n"
      "  %3 = aten::mul.Tensor(%2, %1)\n  return %3\n}\n");
  EXPECT_EQ(describe(kernel.nodes), "relu_mul_2");
}

}  // namespace
}  // namespace scramjet::codegen
