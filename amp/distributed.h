#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <vector>

namespace c10d {
class ProcessGroup;
}  // namespace c10d

namespace scramjet::amp {

class GradScaler;

/// Data-parallel training in several processes ("ranks"), each with its part of the batch: all
/// start from the same parameters, average their gradients, and step or skip together.
///
/// When to use: to train with a GradScaler over c10d, or without Python's DistributedDataParallel.
///
///     const auto group = make_process_group(std::chrono::seconds(60));  // amp/process_group.h
///     broadcast_parameters(model->parameters(), group);
///     broadcast_parameters(model->buffers(), group);
///     GradScaler scaler(at::kCUDA);
///     synchronize_scaler(scaler, group);
///     for (const auto& [input, target] : batches) {  // this rank's part
///       optimizer.zero_grad();
///       scaler.scale(loss_of(input, target)).backward();
///       average_gradients(model->parameters(), group);
///       scaler.step(optimizer);
///       scaler.update();
///     }
///
/// With a loss that is a mean, and parts of equal size, that is the training of one process on the
/// joined batch; a loss that is a sum comes out divided by the number of ranks.
///
/// Rules:
/// - Each function waits for all ranks: all call the same functions in the same order, one thread
/// at
///   a time for a group.
/// - Where a rank has gone, or calls something else, the others get a c10::DistBackendError within
///   the group's timeout; gradients may then be averaged in part. Where the ranks' arguments do not
///   fit together, all of them get the same error and nothing has changed.
/// - Any c10d::ProcessGroup will do, that of torch.distributed too, which has a backend for the
///   tensors' devices; with one for the CPU also (`cpu:gloo,cuda:nccl`) agreeing on the arguments
///   does not wait for CUDA.
/// - Communication starts when average_gradients() is called. Where it should overlap with
///   backward(), use torch's c10d::Reducer in its place; synchronize_scaler() works with it as
///   well.

/// Gives each tensor the value it has on rank `root`; any dtype and strides.
void broadcast_parameters(const std::vector<at::Tensor>& tensors,
                          const c10::intrusive_ptr<c10d::ProcessGroup>& group, int root = 0);

/// Makes each parameter's gradient the mean over the ranks. A rank without the gradient of a
/// parameter that others have counts as 0 and gets the mean too; where no rank has one, none will.
/// Dense, or sparse (COO; Gloo alone) on all ranks that have it. inf and NaN pass through, so that
/// every rank sees them. `bucket_bytes` of gradients travel together.
void average_gradients(const std::vector<at::Tensor>& parameters,
                       const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                       int64_t bucket_bytes = int64_t{25} << 20);

/// Gives the scaler the state that it has on rank 0, and from here on lets every rank skip a step
/// that one rank skips, also with gradients that are not averaged. Call it again after
/// load_state_dict(). Then all ranks scale, step and update alike, each call on all or on none.
void synchronize_scaler(GradScaler& scaler, const c10::intrusive_ptr<c10d::ProcessGroup>& group);

}  // namespace scramjet::amp
