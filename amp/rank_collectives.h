#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

namespace scramjet::amp {

/// The collective operations of one call of amp/distributed.h: errors name the call and the rank.
class RankCollectives {
 public:
  RankCollectives(const c10::intrusive_ptr<c10d::ProcessGroup>& group, const char* call);

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// The maximum over the ranks, element by element.
  std::vector<int64_t> max(const std::vector<int64_t>& message) const;
  /// The same, as a new tensor; waits for the device only where the group has no backend for it.
  at::Tensor max(const at::Tensor& tensor) const;
  /// What rank 0 has, on every rank.
  std::vector<double> of_rank_0(const std::vector<double>& message) const;

  /// An operation in flight. It changes its tensor in place, and keeps it.
  class Pending {
   public:
    /// On CUDA later work on the current stream waits, not this thread.
    void wait() const;

   private:
    friend class RankCollectives;
    const RankCollectives* collectives_;
    c10::intrusive_ptr<c10d::Work> work_;
    std::string operation_;
  };

  Pending sum_(const at::Tensor& tensor) const;
  Pending broadcast_(const at::Tensor& tensor, int root) const;

 private:
  template <typename Start>
  Pending started(const at::Tensor& tensor, const char* operation, const Start& start) const;
  /// Has the group a backend for tensors there?
  bool serves(at::DeviceType type) const;
  /// Where messages travel: the CPU if the group has a backend for it.
  at::Device message_device() const;
  [[noreturn]] void fail(const std::string& operation, const std::string& reason) const;

  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  const char* call_;
  int rank_ = 0, size_ = 0;
};

}  // namespace scramjet::amp
