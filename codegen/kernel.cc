#include "codegen/kernel.h"

#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include <charconv>
#include <cmath>
#include <sstream>
#include <string_view>

#include "codegen/pointwise_ops.h"

namespace scramjet::codegen {
namespace {

constexpr std::string_view kHeader = "kernel v1 ";

std::string constant_text(const c10::IValue& constant) {
  if (constant.isNone()) return "none";
  if (constant.isBool()) return constant.toBool() ? "true" : "false";
  if (constant.isInt()) return std::to_string(constant.toInt());
  if (constant.isString()) return '"' + constant.toStringRef() + '"';
  TORCH_INTERNAL_ASSERT(constant.isDouble(), "a kernel constant of type ", constant.tagKind());
  const double value = constant.toDouble();
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[32];
  const auto end =
      std::to_chars(buffer, buffer + sizeof(buffer), value);  // shortest that reads back exactly
  std::string text(buffer, end.ptr);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

// Reads one line of kernel text; every failure names the line.
class LineReader {
 public:
  LineReader(std::string_view line, size_t number) : rest_(line), number_(number) { skip_space(); }

  [[noreturn]] void fail(const std::string& reason) const {
    TORCH_CHECK_VALUE(false, "scramjet kernel, line ", number_, ": ", reason);
  }

  bool take(std::string_view token) {
    if (rest_.substr(0, token.size()) != token) return false;
    rest_.remove_prefix(token.size());
    skip_space();
    return true;
  }

  void expect(std::string_view token) {
    if (!take(token)) fail(c10::str("expected '", token, "' at '", rest_.substr(0, 20), "'"));
  }

  // The letters up to one of `stops` or the end.
  std::string_view until(std::string_view stops) {
    const std::string_view word = rest_.substr(0, rest_.find_first_of(stops));
    rest_.remove_prefix(word.size());
    skip_space();
    return word;
  }

  int32_t integer() {
    int32_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc() || value < 0)
      fail(c10::str("expected a number at '", rest_.substr(0, 20), "'"));
    rest_.remove_prefix(end - rest_.data());
    skip_space();
    return value;
  }

  int32_t value(int32_t defined) {
    expect("%");
    const int32_t id = integer();
    if (id >= defined) fail(c10::str("%", id, " is not defined before this line"));
    return id;
  }

  void end() const {
    if (!rest_.empty()) fail(c10::str("unexpected '", rest_.substr(0, 20), "'"));
  }

  bool at(char letter) const { return !rest_.empty() && rest_.front() == letter; }

 private:
  void skip_space() { rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size())); }

  std::string_view rest_;
  size_t number_;
};

c10::IValue parse_constant(LineReader& line) {
  if (line.take("\"")) {
    const std::string text(line.until("\""));
    line.expect("\"");
    return text;
  }
  const std::string_view word = line.until(",) ");
  if (word == "none") return {};
  if (word == "true") return true;
  if (word == "false") return false;
  int64_t integer = 0;
  const char* last = word.data() + word.size();
  if (const auto read = std::from_chars(word.data(), last, integer);
      read.ptr == last && read.ec == std::errc())
    return integer;
  double number = 0;
  if (const auto read = std::from_chars(word.data(), last, number);
      read.ptr == last && read.ec == std::errc())
    return number;
  line.fail(c10::str("'", word, "' is not a constant"));
}

bool matches(const c10::IValue& constant, const c10::Type& type) {
  if (type.kind() == c10::TypeKind::OptionalType) {
    return constant.isNone() ||
           matches(constant, *type.expectRef<c10::OptionalType>().getElementType());
  }
  switch (type.kind()) {
    case c10::TypeKind::NumberType:
      return constant.isScalar();
    case c10::TypeKind::FloatType:
      return constant.isDouble() || constant.isInt();
    case c10::TypeKind::IntType:
      return constant.isInt();
    case c10::TypeKind::BoolType:
      return constant.isBool();
    case c10::TypeKind::StringType:
      return constant.isString();
    default:
      return false;
  }
}

bool takes_tensor(const c10::Type& type) {
  return type.isSubtypeOf(*c10::TensorType::get()) || type.kind() == c10::TypeKind::TensorType;
}

Node parse_node(LineReader& line, int32_t defined) {
  const std::string full(line.until("( "));
  const size_t dot = full.find('.');
  const c10::OperatorName name{full.substr(0, dot),
                               dot == std::string::npos ? "" : full.substr(dot + 1)};
  const PointwiseOp* op = find_pointwise_op(name);
  if (op == nullptr) line.fail(c10::str("unknown op '", full, "'"));
  Node node{op, {}};
  bool any_tensor = false;
  line.expect("(");
  for (const c10::Argument& expected : op->schema().arguments()) {
    if (!node.arguments.empty()) line.expect(",");
    Argument argument;
    if (line.at('%')) {
      argument.value = line.value(defined);
      any_tensor = true;
      if (!takes_tensor(*expected.type()))
        line.fail(c10::str(full, ": argument '", expected.name(), "' is not a tensor"));
    } else {
      argument.constant = parse_constant(line);
      if (!matches(argument.constant, *expected.real_type()) &&
          !matches(argument.constant, *expected.type())) {
        line.fail(c10::str(full, ": argument '", expected.name(), "' wants ",
                           expected.type()->str(), ", got ", constant_text(argument.constant)));
      }
    }
    node.arguments.push_back(std::move(argument));
  }
  line.expect(")");
  line.end();
  if (!any_tensor) line.fail(c10::str(full, " has no tensor argument"));
  if (op->rule == DtypeRule::kDtypeArgument || op->rule == DtypeRule::kAutocast) {
    const int64_t dtype = node.arguments[op->rule == DtypeRule::kAutocast ? 2 : 1].constant.toInt();
    if (dtype < 0 || dtype >= static_cast<int64_t>(at::ScalarType::Undefined))
      line.fail(c10::str("no dtype has number ", dtype));
  }
  return node;
}

void check_name(const LineReader& line, std::string_view name) {
  if (name.empty() || name.size() > 100) line.fail("a kernel's name has 1 to 100 letters");
  for (char letter : name) {
    if (!std::isalnum(static_cast<unsigned char>(letter)) && letter != '_')
      line.fail("a kernel's name has letters, digits and _ only");
  }
}

}  // namespace

Kernel Kernel::parse(const std::string& text) {
  Kernel kernel;
  std::istringstream lines(text);
  std::string content;
  size_t number = 0;
  enum { kStart, kBody, kReturned, kDone } state = kStart;
  while (std::getline(lines, content)) {
    ++number;
    LineReader line(content, number);
    const int32_t defined = kernel.num_inputs + static_cast<int32_t>(kernel.nodes.size());
    if (state == kStart) {
      if (!line.take(kHeader))
        line.fail("expected 'kernel v1 NAME(INPUTS) {'; other versions are not known here");
      kernel.name = line.until("(");
      check_name(line, kernel.name);
      line.expect("(");
      kernel.num_inputs = line.integer();
      line.expect(")");
      line.expect("{");
      line.end();
      if (kernel.num_inputs < 1 || static_cast<size_t>(kernel.num_inputs) > kMaxInputs)
        line.fail(c10::str("a kernel has 1 to ", kMaxInputs, " inputs"));
      state = kBody;
    } else if (state == kBody && line.take("return")) {
      do {
        kernel.outputs.push_back(line.value(defined));
        if (kernel.outputs.back() < kernel.num_inputs) line.fail("an input cannot be returned");
      } while (line.take(","));
      line.end();
      if (kernel.outputs.size() > kMaxInputs)
        line.fail(c10::str("a kernel has at most ", kMaxInputs, " outputs"));
      state = kReturned;
    } else if (state == kBody) {
      if (kernel.nodes.size() >= kMaxNodes)
        line.fail(c10::str("a kernel has at most ", kMaxNodes, " ops"));
      line.expect("%");
      if (line.integer() != defined)
        line.fail(c10::str("values are numbered in order: expected %", defined));
      line.expect("=");
      kernel.nodes.push_back(parse_node(line, defined));
    } else if (state == kReturned) {
      line.expect("}");
      line.end();
      state = kDone;
    } else {
      line.end();
    }
  }
  if (state != kDone) LineReader({}, number).fail("the text ends before its closing brace");
  return kernel;
}

std::string Kernel::text() const {
  std::ostringstream out;
  out << kHeader << name << '(' << num_inputs << ") {\n";
  for (size_t k = 0; k < nodes.size(); ++k) {
    out << "  %" << num_inputs + k << " = " << nodes[k].op->name << '(';
    const char* separator = "";
    for (const Argument& argument : nodes[k].arguments) {
      out << separator;
      separator = ", ";
      if (argument.is_value()) {
        out << '%' << argument.value;
      } else {
        out << constant_text(argument.constant);
      }
    }
    out << ")\n";
  }
  out << "  return ";
  for (size_t k = 0; k < outputs.size(); ++k) out << (k ? ", %" : "%") << outputs[k];
  out << "\n}\n";
  return out.str();
}

std::string describe(const std::vector<Node>& nodes) {
  constexpr size_t kLongest = 60;
  std::string name;
  for (size_t k = 0; k < nodes.size();) {
    size_t run = k + 1;
    while (run < nodes.size() && nodes[run].op->name.name == nodes[k].op->name.name) ++run;
    if (!name.empty()) name += '_';
    name += nodes[k].op->short_name();
    if (run - k > 1) name += '_' + std::to_string(run - k);
    k = run;
    if (name.size() > kLongest) return name.substr(0, kLongest);
  }
  return name;
}

}  // namespace scramjet::codegen
