#include "scripting/report.h"

#include <map>
#include <sstream>
#include <tuple>

namespace scramjet {
namespace {

// "aten::relu, 50 × aten::mul.Tensor"
std::string list_ops(const std::vector<std::string>& ops) {
  std::string text;
  for (size_t k = 0; k < ops.size();) {
    size_t run = k + 1;
    while (run < ops.size() && ops[run] == ops[k]) ++run;
    if (!text.empty()) text += ", ";
    if (run - k > 1) text += std::to_string(run - k) + " × ";
    text += ops[k];
    k = run;
  }
  return text;
}

std::string join(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

}  // namespace

std::string report_text(const passes::Report& report) {
  std::ostringstream out;
  out << report.groups.size() << (report.groups.size() == 1 ? " fused group\n" : " fused groups\n");
  for (size_t k = 0; k < report.groups.size(); ++k) {
    const passes::FusedGroup& group = report.groups[k];
    out << "  group " << k << " " << group.name << ": " << group.ops.size()
        << " ops: " << list_ops(group.ops);
    if (!group.sources.empty()) out << "  (" << join(group.sources) << ')';
    out << '\n';
  }
  std::map<std::tuple<std::string, std::string, std::string>, int> counted;
  for (const passes::OutsideOp& op : report.outside) ++counted[{op.op, op.reason, op.source}];
  out << report.outside.size() << " tensor ops outside\n";
  for (const auto& [what, count] : counted) {
    const auto& [op, reason, source] = what;
    out << "  " << op;
    if (count > 1) out << " × " << count;
    out << ": " << reason;
    if (!source.empty()) out << "  (" << source << ')';
    out << '\n';
  }
  return out.str();
}

std::string runtime_text(const runtime::KernelObject& kernel) {
  std::ostringstream out;
  kernel.for_each_specialisation([&](const runtime::Specialisation& at) {
    out << "  " << kernel.kernel().name << " on (";
    for (size_t k = 0; k < at.inputs.size(); ++k) {
      out << (k ? ", " : "") << c10::toString(at.inputs[k].dtype)
          << (at.inputs[k].zero_dim ? " 0-d" : "");
    }
    out << "): ";
    if (!at.program) out << "op by op: " << at.reason;
    int variants = 0;
    for (const runtime::Variant* v = at.variants; v != nullptr; v = v->next) {
      if (v->code) {
        ++variants;
      } else {
        out << "op by op: " << v->reason << "; ";
      }
    }
    if (variants > 0)
      out << variants << (variants == 1 ? " machine code" : " machine codes, by layout");
    out << '\n';
  });
  return out.str();
}

}  // namespace scramjet
