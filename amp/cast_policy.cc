#include "amp/cast_policy.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>

namespace scramjet::amp {
namespace {

using Policies = std::unordered_map<c10::OperatorName, CastPolicy>;

class Table {
 public:
  explicit Table(at::DeviceType device)
      : key_(at::autocast::get_autocast_dispatch_key_from_device_type(device)) {
    if (device == at::kCUDA) add_torch_lists();
#define ROW(row_device, name, policy) \
  if (device == at::row_device) add(name, CastPolicy::policy);
#include "amp/cast_policy.inc"
#undef ROW
  }

  Policies policies;

 private:
  // The header's lists hold for CUDA, and in torch for some accelerators more; not for CPU.
  void add_torch_lists() {
#define ADD(...) add_entry(#__VA_ARGS__, CastPolicy::lower_precision_fp);
    AT_FORALL_LOWER_PRECISION_FP(ADD)
#undef ADD
#define ADD(...) add_entry(#__VA_ARGS__, CastPolicy::fp32);
    AT_FORALL_FP32(ADD)
#undef ADD
#define ADD(...) add_entry(#__VA_ARGS__, CastPolicy::fp32_set_opt_dtype);
    AT_FORALL_FP32_SET_OPT_DTYPE(ADD)
#undef ADD
#define ADD(function, name, signature, redispatch_signature, policy) add(name, CastPolicy::policy);
    AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(ADD)
#undef ADD
#define ADD(...) add_entry(#__VA_ARGS__, CastPolicy::promote);
    AT_FORALL_PROMOTE(ADD)
#undef ADD
  }

  // An entry of torch's lists reads "pow" or "pow, Tensor_Scalar".
  void add_entry(std::string entry, CastPolicy policy) {
    std::erase(entry, ' ');
    std::replace(entry.begin(), entry.end(), ',', '.');
    add(entry, policy);
  }

  void add(std::string_view name, CastPolicy policy) {
    const size_t dot = std::min(name.find('.'), name.size());
    c10::OperatorName op("aten::" + std::string(name.substr(0, dot)),
                         std::string(name.substr(std::min(dot + 1, name.size()))));
    const auto handle = c10::Dispatcher::singleton().findOp(op);
    if (!handle.has_value() || !handle->hasKernelForDispatchKey(key_)) return;
    const bool is_new = policies.emplace(std::move(op), policy).second;
    TORCH_INTERNAL_ASSERT(is_new, "cast_policy: two rows for aten::", name);
  }

  c10::DispatchKey key_;
};

const Policies& policies_of(at::DeviceType device) {
  static const Table cpu(at::kCPU);
  static const Table cuda(at::kCUDA);
  TORCH_CHECK(device == at::kCPU || device == at::kCUDA,
              "cast_policy: device must be cpu or cuda, got ",
              at::DeviceTypeName(device, /*lower_case=*/true));
  return device == at::kCPU ? cpu.policies : cuda.policies;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, CastPolicy policy) {
  switch (policy) {
    case CastPolicy::lower_precision_fp:
      return out << "lower_precision_fp";
    case CastPolicy::fp32:
      return out << "fp32";
    case CastPolicy::fp32_set_opt_dtype:
      return out << "fp32_set_opt_dtype";
    case CastPolicy::fp32_append_dtype:
      return out << "fp32_append_dtype";
    case CastPolicy::promote:
      return out << "promote";
    case CastPolicy::banned:
      return out << "banned";
  }
  TORCH_INTERNAL_ASSERT(false, "CastPolicy ", static_cast<int>(policy));
}

std::optional<CastPolicy> cast_policy(at::DeviceType device, const c10::OperatorName& op) {
  const Policies& policies = policies_of(device);
  const auto found = policies.find(op);
  return found == policies.end() ? std::nullopt : std::optional<CastPolicy>(found->second);
}

std::vector<std::pair<c10::OperatorName, CastPolicy>> cast_policies(at::DeviceType device) {
  const Policies& policies = policies_of(device);
  std::vector<std::pair<c10::OperatorName, CastPolicy>> rows(policies.begin(), policies.end());
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first.name, a.first.overload_name) <
           std::tie(b.first.name, b.first.overload_name);
  });
  return rows;
}

}  // namespace scramjet::amp
