#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <functional>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

#include "amp/process_group.h"

namespace scramjet::amp {

using ProcessGroupPtr = c10::intrusive_ptr<c10d::ProcessGroup>;

/// Runs `body` once for each rank of a group, each in a thread of its own; an error is a failure.
inline void on_ranks(int size, const std::function<void(int rank, const ProcessGroupPtr&)>& body,
                     std::chrono::milliseconds timeout = std::chrono::seconds(20)) {
  // c10d's flight recorder, one for the process, is not made for ranks that are threads: torch 2.11
  // has a race in it. Without entries it is off.
  setenv("TORCH_FR_BUFFER_SIZE", "0", /*overwrite=*/1);
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank, make_process_group(store, rank, size, timeout));
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace scramjet::amp
