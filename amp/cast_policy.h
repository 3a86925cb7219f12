#pragma once

// How torch's autocast treats an operator, for those who rewrite graphs or write operators: the
// same answer that the dispatcher gives a call inside a region (amp/autocast.h).
//
//     cast_policy(at::kCPU, {"aten::mse_loss", ""})    // CastPolicy::fp32
//     cast_policy(at::kCPU, {"aten::exp", ""})         // none: runs in its input's dtype
//     cast_policy(at::kCUDA, {"aten::exp", ""})        // CastPolicy::fp32: the lists differ by
//     device
//
// The lists are torch's own where its headers have them, else amp/cast_policy.inc; an operator that
// the running torch does not treat has no policy, whatever the lists say. cast_policy_test asks the
// dispatcher about each of its operators, so a torch that differs fails there.

#include <ATen/core/operator_name.h>
#include <c10/core/DeviceType.h>

#include <cstdint>
#include <optional>
#include <ostream>
#include <utility>
#include <vector>

namespace scramjet::amp {

/// Casts touch floating-point tensors of the region's device, and never double.
enum class CastPolicy : uint8_t {
  lower_precision_fp,  ///< inputs are cast to the region's dtype (cuDNN's RNNs: to half)
  fp32,                ///< inputs are cast to float32
  fp32_set_opt_dtype,  ///< the argument `dtype`, where it is not given, is set to float32
  fp32_append_dtype,   ///< as above, by way of the overload that has such an argument
  promote,             ///< inputs are cast to the widest of their dtypes and the region's
  banned,              ///< the call fails
};

std::ostream& operator<<(std::ostream& out, CastPolicy policy);

/// None: the operator runs in its inputs' dtypes. Throws where `device` is neither CPU nor CUDA.
std::optional<CastPolicy> cast_policy(c10::DeviceType device, const c10::OperatorName& op);

/// Every operator that has a policy on `device`, by name. Throws as above.
std::vector<std::pair<c10::OperatorName, CastPolicy>> cast_policies(c10::DeviceType device);

}  // namespace scramjet::amp
