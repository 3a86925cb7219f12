#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>

#include "tools/doctor/doctor.h"
#include "tools/table.h"

namespace scramjet {
namespace {

std::string short_number(double value) {
  std::array<char, 32> buffer;
  std::snprintf(buffer.data(), buffer.size(), "%.3g", value);
  return buffer.data();
}

/// A scale is a power of two, so this is all of it.
std::string scale_number(double scale) {
  std::array<char, 32> buffer;
  std::snprintf(buffer.data(), buffer.size(), "%.17g", scale);
  return buffer.data();
}

/// "-" for none, since most are.
std::string percent(int64_t part, int64_t whole) {
  if (part == 0) return "-";
  const double share = 100. * static_cast<double>(part) / static_cast<double>(whole);
  std::array<char, 32> buffer;
  std::snprintf(buffer.data(), buffer.size(), share < 0.01 ? "<0.01%%" : "%.3g%%", share);
  return buffer.data();
}

std::string largest(const amp::ValueRange& range) {
  const double largest = range.largest();
  return (range.nans() > 0         ? "nan, "
          : range.infinities() > 0 ? "inf, "
                                   : "") +
         short_number(largest);
}

/// Histograms in one line: from below the format's range to above it.
class Strip {
 public:
  explicit Strip(const amp::FloatFormat& format)
      : low_(format.min_exponent() - format.mantissa_bits() - kMargin),
        step_(static_cast<int>(
            std::ceil((format.max_exponent() + kMargin - low_) / double{kWidth}))) {}

  /// Where the format's normal numbers begin and end: "   [     ]  ".
  std::string ruler(const amp::FloatFormat& format) const {
    std::string text(kWidth, ' ');
    text[place(format.min_exponent() - format.mantissa_bits())] = '(';
    text[place(format.min_exponent())] = '[';
    text[place(format.max_exponent())] = ']';
    return text;
  }

  /// A character for `step()` powers of two; what lies outside is in the first and the last. Taller
  /// by one for eight times as many.
  std::string draw(const amp::ValueRange& range) const {
    std::array<int64_t, kWidth> counts{};
    for (const auto& [exponent, count] : range.exponents()) counts[place(exponent)] += count;
    const int64_t most = *std::ranges::max_element(counts);
    std::string text;
    for (const int64_t count : counts) {
      constexpr std::array kBlocks = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
      if (count == 0) {
        text += kBlocks[0];
        continue;
      }
      const int below = static_cast<int>(std::log2(static_cast<double>(most) / count) / 3);
      text += kBlocks[std::max(1, 8 - below)];
    }
    return text;
  }

  int step() const { return step_; }
  int low() const { return low_; }
  int high() const { return low_ + kWidth * step_; }

 private:
  static constexpr int kWidth = 30;
  static constexpr int kMargin = 6;

  size_t place(int exponent) const {
    return static_cast<size_t>(std::clamp((exponent - low_) / step_, 0, kWidth - 1));
  }

  int low_, step_;
};

/// Adds a line of its own to each row of a table, which has the header's line first.
std::string beside(const std::string& table, const std::vector<std::string>& strips) {
  std::string text;
  size_t start = 0;
  for (const std::string& strip : strips) {
    const size_t end = table.find('\n', start);
    text += table.substr(start, end - start) + "  " + strip + '\n';
    start = end + 1;
  }
  return text;
}

std::string layer_or_model(const std::string& layer) { return layer.empty() ? "(model)" : layer; }

std::string error_text(const amp::OperatorReport& report) {
  if (!report.error.has_value()) return "none";
  return std::isinf(*report.error) ? "inf" : short_number(*report.error);
}

std::string values_table(const amp::Inspection& found, const Strip& strip) {
  std::vector<TableRow> rows = {{"layer", "operator", "calls", "autocast", "largest", "overflow",
                                 "flushed", "subnormal", "error"}};
  std::vector<std::string> strips = {strip.ruler(found.format)};
  const auto add = [&](TableRow row, const amp::ValueRange& range, const std::string& error) {
    row.insert(row.end(), {largest(range), percent(range.overflowed(), range.count()),
                           percent(range.flushed(), range.count()),
                           percent(range.subnormal(), range.count()), error});
    rows.push_back(std::move(row));
    strips.push_back(strip.draw(range));
  };
  for (const amp::TensorReport& input : found.inputs) {
    add({input.name, "", "", ""}, input.values, "");
  }
  for (const amp::OperatorReport& report : found.operators) {
    add({layer_or_model(report.layer), report.op, std::to_string(report.calls),
         std::string(report.narrow ? found.format.name() : "fp32")},
        report.outputs, error_text(report));
  }
  for (const amp::TensorReport& parameter : found.parameters) {
    if (parameter.values.count() > 0) add({parameter.name, "", "", ""}, parameter.values, "");
  }
  return beside(table(rows, 2), strips);
}

/// Empty where there are none.
std::string gradients_table(const amp::Inspection& found, const Strip& strip) {
  const double scale = found.starting_scale().value_or(1);
  const int log2_scale = std::ilogb(scale);
  std::vector<TableRow> rows = {{"gradient of", "", "largest", "overflow", "flushed"}};
  if (scale != 1) rows.front().push_back("flushed at " + scale_number(scale));
  std::vector<std::string> strips = {strip.ruler(found.format)};
  const auto add = [&](const std::string& name, const std::string& op,
                       const amp::ValueRange& range) {
    if (range.count() == 0) return;
    rows.push_back({name, op, largest(range), percent(range.overflowed(), range.count()),
                    percent(range.flushed(), range.count())});
    if (scale != 1) rows.back().push_back(percent(range.flushed_at(log2_scale), range.count()));
    strips.push_back(strip.draw(range));
  };
  for (const amp::OperatorReport& report : found.operators) {
    add(layer_or_model(report.layer), report.op, report.gradients);
  }
  for (const amp::TensorReport& parameter : found.parameters) {
    add(parameter.name, "", parameter.gradients);
  }
  return rows.size() == 1 ? "" : beside(table(rows, 2), strips);
}

std::string operator_advice(const amp::Inspection& found) {
  std::string text;
  for (const amp::OperatorReport& report : found.operators) {
    if (report.keep_in_fp32.empty()) continue;
    text += "  " + report.op + " in " + layer_or_model(report.layer) + ": " + report.keep_in_fp32 +
            '\n';
  }
  const std::string format(found.format.name());
  if (text.empty()) return "Nothing has to stay in float32 beside what autocast keeps there.\n";
  std::string python, cpp;
  for (const std::string& op : found.keep_in_fp32()) {
    python += (python.empty() ? "" : ", ") + ('"' + op + "\": \"fp32\"");
    cpp += (cpp.empty() ? "" : ", ") + ("{\"" + op + "\", \"fp32\"}");
  }
  return "Keep in float32:\n" + text + "  Python: scramjet.compile(model, autocast=torch." +
         (format == "fp16" ? "float16" : "bfloat16") + ", autocast_overrides={" + python +
         "})\n  C++:    options.autocast->overrides = {" + cpp + "};\n";
}

std::string scale_advice(const amp::Inspection& found) {
  const std::optional<double> scale = found.starting_scale();
  if (!scale.has_value()) return "";
  return "Start the GradScaler at " + scale_number(*scale) + " (init_scale; default 65536): the " +
         "largest gradient is " + short_number(found.largest_gradient()) + ".\n";
}

std::string trial_text(const AutocastTrial& trial) {
  if (!trial.failed.empty()) return "Autocast could not be tried: " + trial.failed + '\n';
  std::string text =
      "Tried: under autocast the output is off by " + short_number(trial.plain) + " of its size";
  if (trial.with_advice.has_value()) {
    text += ", with the above in float32 by " + short_number(*trial.with_advice);
  }
  return text + ".\n";
}

}  // namespace

std::string diagnosis_text(const amp::Inspection& found,
                           const std::optional<AutocastTrial>& trial) {
  const amp::FloatFormat& format = found.format;
  const Strip strip(format);
  const std::string name(format.name());
  std::string text =
      name + ": largest " + short_number(format.max()) + ", smallest normal " +
      short_number(format.smallest_normal()) + ", smallest " +
      short_number(format.smallest_subnormal()) + ", epsilon " + short_number(format.epsilon()) +
      "\nShares are of all numbers. error: of the operator in " + name +
      " against float32, in epsilons. Histograms: 2^" + std::to_string(strip.low()) + " to 2^" +
      std::to_string(strip.high()) + ", " + std::to_string(strip.step()) +
      " powers of two a column; ( [ ] where subnormal and normal numbers begin and end.\n\n" +
      values_table(found, strip);
  const std::string gradients = gradients_table(found, strip);
  if (!gradients.empty()) text += '\n' + gradients;
  text += '\n' + operator_advice(found) + scale_advice(found);
  if (trial.has_value()) text += trial_text(*trial);
  return text;
}

}  // namespace scramjet
