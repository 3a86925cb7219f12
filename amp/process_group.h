#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace scramjet::amp {

/// Processes that train together: Gloo for tensors on the CPU and, where this machine has CUDA,
/// NCCL for those on CUDA.
///
/// When to use: to get a c10d::ProcessGroup in C++. libtorch contains Gloo, but its headers ask for
/// Gloo's, which torch does not install. Any other ProcessGroup does as well for amp/distributed.h.
///
///     const auto group = make_process_group(std::chrono::seconds(60));  // started by torchrun
///
/// Rules:
/// - `timeout` bounds finding each other and each operation after it; what a rank waits for longer
///   than that is an error on this rank.
/// - On a machine with several networks GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME choose one, as
/// for
///   torch.distributed.
/// - With CUDA, first make the process's own device the current one.
/// - Keep the group until every rank is done: the others' operations fail once a rank has gone.

/// `rank` is in [0, size); each rank's `store` reaches the same keys, which no other group uses
/// (c10d::PrefixStore gives a group keys of its own).
c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(
    const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
    std::chrono::milliseconds timeout = std::chrono::minutes(30));

/// Where and how many the processes are is read from MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE,
/// which torchrun sets; rank 0 listens on that port, unless torchrun does.
c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(
    std::chrono::milliseconds timeout = std::chrono::minutes(30));

}  // namespace scramjet::amp
