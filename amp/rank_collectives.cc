#include "amp/rank_collectives.h"

#include <ATen/ops/tensor.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

namespace scramjet::amp {

RankCollectives::RankCollectives(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                 const char* call)
    : group_(group), call_(call) {
  TORCH_CHECK_VALUE(group, call, "(): group is null");
  rank_ = group->getRank();
  size_ = group->getSize();
}

void RankCollectives::fail(const std::string& operation, const std::string& reason) const {
  C10_THROW_ERROR(DistBackendError,
                  c10::str(call_, "(): rank ", rank_, " of ", size_, " failed in ", operation,
                           ". Either another rank has stopped (look for its error first), or it "
                           "calls other functions, or in another order. ",
                           reason));
}

template <typename Start>
RankCollectives::Pending RankCollectives::started(const at::Tensor& tensor, const char* operation,
                                                  const Start& start) const {
  Pending pending;
  pending.collectives_ = this;
  pending.operation_ = c10::str(operation, " of ", tensor.numel(), " ", tensor.scalar_type(),
                                " on ", tensor.device());
  try {
    std::vector<at::Tensor> tensors{tensor};
    pending.work_ = start(tensors);
  } catch (const c10::Error& error) {
    fail(pending.operation_, error.what_without_backtrace());
  } catch (const std::exception& error) {
    fail(pending.operation_, error.what());
  }
  return pending;
}

void RankCollectives::Pending::wait() const {
  try {
    work_->wait();
  } catch (const c10::Error& error) {
    collectives_->fail(operation_, error.what_without_backtrace());
  } catch (const std::exception& error) {
    collectives_->fail(operation_, error.what());
  }
}

RankCollectives::Pending RankCollectives::sum_(const at::Tensor& tensor) const {
  return started(tensor, "all-reduce",
                 [&](std::vector<at::Tensor>& tensors) { return group_->allreduce(tensors); });
}

RankCollectives::Pending RankCollectives::broadcast_(const at::Tensor& tensor, int root) const {
  c10d::BroadcastOptions options;
  options.rootRank = root;
  return started(tensor, "broadcast", [&](std::vector<at::Tensor>& tensors) {
    return group_->broadcast(tensors, options);
  });
}

// torch before 2.15 has no ProcessGroup::hasBackendForDeviceType.
bool RankCollectives::serves(at::DeviceType type) const {
  const auto devices = group_->getDeviceTypes();
  return std::any_of(devices.begin(), devices.end(),
                     [&](const at::Device& device) { return device.type() == type; });
}

at::Device RankCollectives::message_device() const {
  const auto devices = group_->getDeviceTypes();
  return devices.empty() || serves(at::kCPU) ? at::Device(at::kCPU) : devices.front();
}

at::Tensor RankCollectives::max(const at::Tensor& tensor) const {
  const at::Tensor result = tensor.to(
      serves(tensor.device().type()) ? tensor.device() : message_device(), tensor.scalar_type(),
      /*non_blocking=*/false, /*copy=*/true);
  c10d::AllreduceOptions options;
  options.reduceOp = c10d::ReduceOp::MAX;
  started(result, "all-reduce", [&](std::vector<at::Tensor>& tensors) {
    return group_->allreduce(tensors, options);
  }).wait();
  return result.to(tensor.device());
}

std::vector<int64_t> RankCollectives::max(const std::vector<int64_t>& message) const {
  const at::Tensor agreed = max(at::tensor(message, at::kLong));
  const auto* values = agreed.const_data_ptr<int64_t>();
  return {values, values + agreed.numel()};
}

std::vector<double> RankCollectives::of_rank_0(const std::vector<double>& message) const {
  const at::Tensor tensor = at::tensor(message, at::kDouble).to(message_device());
  broadcast_(tensor, /*root=*/0).wait();
  const at::Tensor result = tensor.to(at::kCPU);
  const auto* values = result.const_data_ptr<double>();
  return {values, values + result.numel()};
}

}  // namespace scramjet::amp
