#include "tools/formats.h"

#include <gtest/gtest.h>

#include <string>

namespace scramjet {
namespace {

// The raw strings begin on the next line, for the columns to line up.
std::string lines(const char* text) { return text + 1; }

TEST(Formats, PrintsTheTable) {
  EXPECT_EQ(formats_text(), lines(R"(
format        bits  exponent  mantissa  bias            max  smallest normal  smallest subnormal    epsilon
fp64            64        11        52  1023  1.797693e+308       2.225e-308          4.941e-324   2.22e-16
fp32            32         8        23   127   3.402823e+38        1.175e-38           1.401e-45  1.192e-07
tf32            19         8        10   127   3.401162e+38        1.175e-38           1.148e-41  0.0009766
fp16            16         5        10    15          65504        6.104e-05            5.96e-08  0.0009766
bf16            16         8         7   127   3.389531e+38        1.175e-38           9.184e-41   0.007812
fp8_e4m3fn       8         4         3     7            448          0.01562            0.001953      0.125
fp8_e5m2         8         5         2    15          57344        6.104e-05           1.526e-05       0.25
fp8_e4m3fnuz     8         4         3     8            240         0.007812           0.0009766      0.125
fp8_e5m2fnuz     8         5         2    16          57344        3.052e-05           7.629e-06       0.25
)"));
}

TEST(Formats, PrintsANumberInEachFormat) {
  EXPECT_EQ(formats_text(100.3), lines(R"(
format                     value      error          next below          next above    spacing
fp64                       100.3          0  100.29999999999998  100.30000000000001  1.421e-14
fp32          100.30000305175781  3.052e-06  100.29999542236328  100.30000305175781  7.629e-06
tf32                    100.3125     0.0125              100.25            100.3125     0.0625
fp16                    100.3125     0.0125              100.25            100.3125     0.0625
bf16                       100.5        0.2                 100               100.5        0.5
fp8_e4m3fn                   104        3.7                  96                 104          8
fp8_e5m2                      96       -4.3                  96                 112         16
fp8_e4m3fnuz                 104        3.7                  96                 104          8
fp8_e5m2fnuz                  96       -4.3                  96                 112         16
)"));
}

TEST(Formats, PrintsANumberThatSomeFormatsCannotHold) {
  EXPECT_EQ(formats_text(-70000), lines(R"(
format         value      error          next below          next above    spacing
fp64          -70000          0  -70000.00000000001  -69999.99999999999  1.455e-11
fp32          -70000          0      -70000.0078125      -69999.9921875   0.007812
tf32          -70016        -16              -70016              -69952         64
fp16            -inf       -inf                -inf              -65504        nan
bf16          -70144       -144              -70144              -69632        512
fp8_e4m3fn      -448  6.955e+04                 nan                -448        nan
fp8_e5m2        -inf       -inf                -inf              -57344        nan
fp8_e4m3fnuz     nan        nan                 nan                -240        nan
fp8_e5m2fnuz     nan        nan                 nan              -57344        nan
)"));
}

}  // namespace
}  // namespace scramjet
