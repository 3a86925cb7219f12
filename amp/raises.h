#pragma once

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <string>

namespace scramjet::amp {

/// EXPECT_TRUE(raises<c10::ValueError>("FP16", [&] { scaler.unscale_(optimizer); }));
template <typename Error = c10::Error, typename Function>
::testing::AssertionResult raises(const std::string& phrase, Function&& function) {
  try {
    function();
  } catch (const Error& error) {
    const std::string text = error.what_without_backtrace();
    if (text.find(phrase) != std::string::npos) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "not '" << phrase << "' but '" << text << "'";
  }
  return ::testing::AssertionFailure() << "no error: " << phrase;
}

}  // namespace scramjet::amp
