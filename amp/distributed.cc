#include "amp/distributed.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/Dict.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <c10/util/hash.h>
#include <torch/csrc/utils/tensor_flatten.h>

#include <map>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>

#include "amp/grad_scaler.h"
#include "amp/rank_collectives.h"

namespace scramjet::amp {
namespace {

constexpr int64_t kBroadcastBytes = int64_t{25} << 20;

/// Tied weights stand more than once in a module's parameters.
std::vector<at::Tensor> without_repeats(const std::vector<at::Tensor>& tensors, const char* call,
                                        const char* argument) {
  std::vector<at::Tensor> result;
  std::unordered_set<const void*> seen;
  for (size_t i = 0; i < tensors.size(); ++i) {
    TORCH_CHECK_VALUE(tensors[i].defined(), call, "(): ", argument, "[", i, "] is undefined");
    TORCH_CHECK_VALUE(!tensors[i].is_sparse(), call, "(): ", argument, "[", i,
                      "] should be dense, got ", tensors[i].layout());
    if (seen.insert(tensors[i].unsafeGetTensorImpl()).second) result.push_back(tensors[i]);
  }
  return result;
}

/// What must be the same on every rank.
std::string description(const at::Tensor& tensor) {
  return c10::str(tensor.scalar_type(), " ", tensor.device().type(), " ", tensor.sizes());
}

/// Of a text, 60 bits: small enough to be negated.
int64_t signature(const std::string& text) {
  constexpr size_t kHexDigits = 15;
  return std::stoll(c10::sha1(text).str().substr(0, kHexDigits), nullptr, 16);
}

int64_t signature(const std::vector<at::Tensor>& tensors) {
  std::string all;
  for (const at::Tensor& tensor : tensors) all += description(tensor) + '\n';
  return signature(all);
}

/// Throws on all ranks where the calls or the lists differ. `attention`: whether any rank said so.
/// Every call starts with it: its message has one size, and Gloo ends a process that receives
/// another size than it expects.
bool agree_on_tensors(const RankCollectives& ranks, const std::vector<at::Tensor>& tensors,
                      bool attention, const char* call, const char* argument) {
  const auto count = static_cast<int64_t>(tensors.size());
  const int64_t all = signature(tensors), called = signature(std::string(call));
  // A maximum of the negated numbers tells the minimum.
  const auto agreed = ranks.max({count, -count, all, -all, called, -called, attention ? 1 : 0});
  TORCH_CHECK_VALUE(
      agreed[4] == -agreed[5], call,
      "(): every rank should be in this call, but another is in a different one; all "
      "should call the functions of amp/distributed.h, and step() and unscale_() of a "
      "synchronized GradScaler, in the same order");
  TORCH_CHECK_VALUE(agreed[0] == -agreed[1], call, "(): every rank should pass the same number of ",
                    argument, ", got from ", -agreed[1], " to ", agreed[0], "; on rank ",
                    ranks.rank(), " ", count);
  if (agreed[2] == -agreed[3]) return agreed[6] != 0;
  std::vector<int64_t> each;
  for (const at::Tensor& tensor : tensors) {
    const int64_t one = signature(description(tensor));
    each.insert(each.end(), {one, -one});
  }
  const auto most = ranks.max(each);
  size_t i = 0;
  while (i + 1 < tensors.size() && most[2 * i] == -most[2 * i + 1]) ++i;
  TORCH_CHECK_VALUE(false, call, "(): every rank should pass ", argument,
                    " of the same dtypes, device types and sizes, but element ", i,
                    " differs; on rank ", ranks.rank(), " it is ", description(tensors[i]));
}

bool agree_on_call(const RankCollectives& ranks, bool attention, const char* call) {
  return agree_on_tensors(ranks, {}, attention, call, "tensors");
}

/// Positions in a list of tensors that travel together: of one device and dtype, in list order.
using Bucket = std::vector<size_t>;

std::vector<Bucket> buckets_of(const std::vector<at::Tensor>& tensors,
                               const std::vector<size_t>& positions, int64_t bucket_bytes) {
  struct Open {
    Bucket bucket;
    int64_t bytes = 0;
  };
  std::vector<Bucket> full;
  std::map<std::pair<std::string, at::ScalarType>, Open> open;
  for (const size_t i : positions) {
    const at::Tensor& tensor = tensors[i];
    Open& current = open[{tensor.device().str(), tensor.scalar_type()}];
    const auto bytes = static_cast<int64_t>(tensor.nbytes());
    if (!current.bucket.empty() && current.bytes + bytes > bucket_bytes) {
      full.push_back(std::exchange(current, {}).bucket);
    }
    current.bucket.push_back(i);
    current.bytes += bytes;
  }
  for (auto& [kind, current] : open) full.push_back(std::move(current.bucket));
  return full;
}

/// How the gradient of a parameter stands on the ranks, each the maximum over them.
struct GradientKinds {
  enum Column { kDense, kSparseDimensions, kMisfit, kColumns };  // kMisfit: 1 + the rank

  std::vector<int64_t> values;
  int64_t at(size_t parameter, Column column) const {
    return values[parameter * kColumns + column];
  }
};

bool fits(const at::Tensor& gradient, const at::Tensor& parameter) {
  return gradient.sizes() == parameter.sizes() &&
         gradient.scalar_type() == parameter.scalar_type() &&
         gradient.device() == parameter.device() &&
         (gradient.layout() == at::kStrided || gradient.layout() == at::kSparse);
}

GradientKinds agree_on_gradients(const RankCollectives& ranks,
                                 const std::vector<at::Tensor>& parameters, const char* call) {
  GradientKinds kinds{std::vector<int64_t>(parameters.size() * GradientKinds::kColumns)};
  bool usual = true;
  for (size_t i = 0; i < parameters.size(); ++i) {
    int64_t* const row = kinds.values.data() + i * GradientKinds::kColumns;
    const at::Tensor& gradient = parameters[i].grad();
    if (gradient.defined() && !fits(gradient, parameters[i])) {
      row[GradientKinds::kMisfit] = 1 + ranks.rank();
    } else if (gradient.defined() && gradient.is_sparse()) {
      row[GradientKinds::kSparseDimensions] = gradient.sparse_dim();
    } else if (gradient.defined()) {
      row[GradientKinds::kDense] = 1;
    }
    usual = usual && row[GradientKinds::kDense] == 1;
  }
  if (!agree_on_tensors(ranks, parameters, !usual, call, "parameters")) return kinds;
  kinds.values = ranks.max(kinds.values);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const int64_t misfit = kinds.at(i, GradientKinds::kMisfit);
    TORCH_CHECK_VALUE(misfit == 0, call, "(): the gradient of parameter ", i, ", on rank ",
                      misfit - 1,
                      ", has not its parameter's sizes, dtype or device, or is neither dense nor "
                      "sparse COO");
    TORCH_CHECK_VALUE(kinds.at(i, GradientKinds::kDense) == 0 ||
                          kinds.at(i, GradientKinds::kSparseDimensions) == 0,
                      call, "(): the gradient of parameter ", i,
                      " is sparse on one rank and dense on another; it should be the same on all");
  }
  return kinds;
}

/// Gradients of one device and dtype, being averaged.
class DenseAverage {
 public:
  DenseAverage(const RankCollectives& ranks, std::vector<at::Tensor> parameters)
      : parameters_(std::move(parameters)) {
    for (const at::Tensor& parameter : parameters_) {
      const at::Tensor& gradient = parameter.grad();
      gradients_.push_back(gradient.defined() ? gradient
                                              : at::zeros(parameter.sizes(), parameter.options()));
    }
    flat_ = torch::utils::flatten_dense_tensors(gradients_);
    if (flat_.numel() == 0) return;
    // Before the sum, as in torch's DistributedDataParallel: a sum in float16 may overflow.
    flat_.div_(ranks.size());
    pending_ = ranks.sum_(flat_.is_complex() ? at::view_as_real(flat_) : flat_);
  }

  void finish() const {
    if (pending_) pending_->wait();
    const auto means = torch::utils::unflatten_dense_tensors(flat_, gradients_);
    for (size_t i = 0; i < parameters_.size(); ++i) {
      at::Tensor& gradient = parameters_[i].mutable_grad();
      if (!gradient.defined()) {
        gradient = at::empty_like(parameters_[i]).copy_(means[i]);
      } else if (at::has_internal_overlap(gradient) != at::MemOverlap::No) {
        gradient = means[i].clone();
      } else if (!gradient.is_alias_of(flat_)) {
        gradient.copy_(means[i]);
      }
    }
  }

 private:
  std::vector<at::Tensor> parameters_, gradients_;
  at::Tensor flat_;
  std::optional<RankCollectives::Pending> pending_;
};

void average_sparse(const RankCollectives& ranks, const at::Tensor& parameter,
                    int64_t sparse_dimensions) {
  at::Tensor& gradient = parameter.mutable_grad();
  if (!gradient.defined()) {
    std::vector<int64_t> sizes = parameter.sizes().vec();
    std::vector<int64_t> values(sizes.begin() + sparse_dimensions, sizes.end());
    values.insert(values.begin(), 0);
    gradient = at::sparse_coo_tensor(
        at::zeros({sparse_dimensions, 0}, parameter.options().dtype(at::kLong)),
        at::zeros(values, parameter.options()), sizes);
  }
  gradient = gradient.coalesce();
  gradient._values().div_(ranks.size());
  ranks.sum_(gradient).wait();
}

}  // namespace

void broadcast_parameters(const std::vector<at::Tensor>& tensors,
                          const c10::intrusive_ptr<c10d::ProcessGroup>& group, int root) {
  constexpr const char* kCall = "broadcast_parameters";
  const at::NoGradGuard no_grad;
  const RankCollectives ranks(group, kCall);
  TORCH_CHECK_VALUE(root >= 0 && root < ranks.size(), kCall, "(): root should be in [0, ",
                    ranks.size(), "), got ", root);
  const auto unique = without_repeats(tensors, kCall, "tensors");
  agree_on_tensors(ranks, unique, /*attention=*/false, kCall, "tensors");
  std::vector<size_t> positions;
  for (size_t i = 0; i < unique.size(); ++i) {
    if (unique[i].numel() > 0) positions.push_back(i);
  }
  for (const Bucket& bucket : buckets_of(unique, positions, kBroadcastBytes)) {
    std::vector<at::Tensor> together;
    for (const size_t i : bucket) together.push_back(unique[i].detach());
    // As bytes: the backends do not know every dtype.
    const at::Tensor flat = torch::utils::flatten_dense_tensors(together);
    ranks.broadcast_(flat.view(at::kByte), root).wait();
    const auto values = torch::utils::unflatten_dense_tensors(flat, together);
    for (size_t i = 0; i < together.size(); ++i) {
      if (!together[i].is_alias_of(flat)) together[i].copy_(values[i]);
    }
  }
}

void average_gradients(const std::vector<at::Tensor>& parameters,
                       const c10::intrusive_ptr<c10d::ProcessGroup>& group, int64_t bucket_bytes) {
  constexpr const char* kCall = "average_gradients";
  TORCH_CHECK_VALUE(bucket_bytes > 0, kCall, "(): bucket_bytes should be > 0, got ", bucket_bytes);
  const at::NoGradGuard no_grad;
  const RankCollectives ranks(group, kCall);
  const auto unique = without_repeats(parameters, kCall, "parameters");
  const GradientKinds kinds = agree_on_gradients(ranks, unique, kCall);
  std::vector<size_t> dense, sparse;
  for (size_t i = 0; i < unique.size(); ++i) {
    if (kinds.at(i, GradientKinds::kDense) != 0) dense.push_back(i);
    if (kinds.at(i, GradientKinds::kSparseDimensions) != 0) sparse.push_back(i);
  }
  std::vector<DenseAverage> averages;
  for (const Bucket& bucket : buckets_of(unique, dense, bucket_bytes)) {
    std::vector<at::Tensor> together;
    for (const size_t i : bucket) together.push_back(unique[i]);
    averages.emplace_back(ranks, std::move(together));
  }
  for (const DenseAverage& average : averages) average.finish();
  for (const size_t i : sparse) {
    average_sparse(ranks, unique[i], kinds.at(i, GradientKinds::kSparseDimensions));
  }
}

void synchronize_scaler(GradScaler& scaler, const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  constexpr const char* kCall = "synchronize_scaler";
  const RankCollectives ranks(group, kCall);
  agree_on_call(ranks, /*attention=*/false, kCall);
  const int64_t enabled = scaler.is_enabled() ? 1 : 0;
  const auto agreed = ranks.max({enabled, -enabled});
  TORCH_CHECK_VALUE(agreed[0] == -agreed[1], kCall,
                    "(): the scaler should be enabled on every rank or on none; on rank ",
                    ranks.rank(), " it is ", enabled != 0 ? "enabled" : "disabled");
  if (enabled == 0) return;
  auto state = scaler.state_dict();
  std::vector<double> numbers;
  for (const auto& entry : state) numbers.push_back(entry.value().toScalar().toDouble());
  numbers = ranks.of_rank_0(numbers);
  size_t i = 0;
  for (const auto& entry : state) {
    const double number = numbers[i++];
    state.insert_or_assign(entry.key(), entry.value().isInt()
                                            ? c10::IValue(static_cast<int64_t>(number))
                                            : c10::IValue(number));
  }
  scaler.load_state_dict(state);
  scaler.set_found_inf_agreement([group](const at::Tensor& found_inf) {
    const RankCollectives ranks(group, "GradScaler.unscale_");
    // On CUDA without a message, which would wait for the device.
    if (!found_inf.is_cpu()) return ranks.max(found_inf);
    const bool found = agree_on_call(ranks, found_inf.item<float>() != 0, "GradScaler.unscale_");
    return at::full({}, found ? 1. : 0., found_inf.options());
  });
}

}  // namespace scramjet::amp
