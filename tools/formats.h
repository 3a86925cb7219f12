#pragma once

#include <string>

namespace scramjet {

/// What `scramjet formats` prints: a table of the floating-point formats (amp/float_format.h),
/// their bits, range and precision.
std::string formats_text();

/// What `scramjet formats VALUE` prints: for each format the number that `value` becomes, the
/// error, and the format's numbers next below and above `value`.
std::string formats_text(double value);

}  // namespace scramjet
