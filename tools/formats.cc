#include "tools/formats.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <vector>

#include "amp/float_format.h"
#include "tools/table.h"

namespace scramjet {
namespace {

/// As few digits as tell the double from its neighbours.
std::string shortest(double value) {
  if (std::isnan(value)) return "nan";  // of either sign
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.begin(), buffer.end(), value).ptr;
  return {buffer.begin(), end};
}

std::string rounded_to(int digits, double value) {
  if (std::isnan(value)) return "nan";
  std::array<char, 32> buffer;
  const auto end =
      std::to_chars(buffer.begin(), buffer.end(), value, std::chars_format::general, digits).ptr;
  return {buffer.begin(), end};
}

}  // namespace

std::string formats_text() {
  std::vector<TableRow> rows = {{"format", "bits", "exponent", "mantissa", "bias", "max",
                                 "smallest normal", "smallest subnormal", "epsilon"}};
  for (const amp::FloatFormat& format : amp::float_formats()) {
    rows.push_back({std::string(format.name()), std::to_string(format.bits()),
                    std::to_string(format.exponent_bits()), std::to_string(format.mantissa_bits()),
                    std::to_string(format.bias()), rounded_to(7, format.max()),
                    rounded_to(4, format.smallest_normal()),
                    rounded_to(4, format.smallest_subnormal()), rounded_to(4, format.epsilon())});
  }
  return table(rows);
}

std::string formats_text(double value) {
  std::vector<TableRow> rows = {
      {"format", "value", "error", "next below", "next above", "spacing"}};
  for (const amp::FloatFormat& format : amp::float_formats()) {
    const double rounded = format.round(value);
    rows.push_back({std::string(format.name()), shortest(rounded),
                    rounded == value ? "0" : rounded_to(4, rounded - value),
                    shortest(format.next_below(value)), shortest(format.next_above(value)),
                    rounded_to(4, format.spacing(value))});
  }
  return table(rows);
}

}  // namespace scramjet
