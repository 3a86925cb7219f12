#include "amp/process_group.h"

#include <ATen/Context.h>
#include <c10/util/Exception.h>
#include <c10/util/env.h>

#include <charconv>
#include <limits>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "amp/process_group_backends.h"

namespace scramjet::amp {
namespace {

std::string text_from_environment(const char* variable) {
  const auto text = c10::utils::get_env(variable);
  TORCH_CHECK_VALUE(text.has_value() && !text->empty(), "make_process_group(): ", variable,
                    " is not set in the environment; torchrun sets it, and without torchrun set "
                    "MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE for each process");
  return *text;
}

int number_from_environment(const char* variable, int least, int most) {
  const std::string text = text_from_environment(variable);
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  TORCH_CHECK_VALUE(
      error == std::errc() && end == text.data() + text.size() && number >= least && number <= most,
      "make_process_group(): ", variable, " should be an integer from ", least, " to ", most,
      ", got '", text, "'");
  return number;
}

}  // namespace

c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(
    const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
    std::chrono::milliseconds timeout) {
  TORCH_CHECK_VALUE(store, "make_process_group(): store is null");
  TORCH_CHECK_VALUE(size >= 1, "make_process_group(): size should be 1 or more, got ", size);
  TORCH_CHECK_VALUE(rank >= 0 && rank < size, "make_process_group(): rank should be in [0, ", size,
                    "), got ", rank);
  TORCH_CHECK_VALUE(timeout.count() > 0, "make_process_group(): timeout should be > 0 ms, got ",
                    timeout.count());
  using c10d::ProcessGroup;
  const auto prefixed = [&](const char* prefix) {
    return c10::make_intrusive<c10d::PrefixStore>(prefix, store);
  };
  auto group = c10::make_intrusive<ProcessGroup>(store, rank, size);
  group->setBackend(at::kCPU, ProcessGroup::BackendType::GLOO,
                    make_gloo_backend(prefixed("gloo"), rank, size, timeout));
  group->setDefaultBackend(ProcessGroup::BackendType::GLOO);
#if defined(SCRAMJET_CUDA) && defined(SCRAMJET_NCCL)
  if (at::hasCUDA()) {
    group->setBackend(at::kCUDA, ProcessGroup::BackendType::NCCL,
                      make_nccl_backend(prefixed("nccl"), rank, size, timeout));
  }
#endif
  return group;
}

c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(std::chrono::milliseconds timeout) {
  const std::string host = text_from_environment("MASTER_ADDR");
  const int port = number_from_environment("MASTER_PORT", 1, 65535);
  const int size = number_from_environment("WORLD_SIZE", 1, std::numeric_limits<int>::max());
  const int rank = number_from_environment("RANK", 0, size - 1);
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(port);
  options.numWorkers = size;
  options.timeout = timeout;
  options.isServer = rank == 0 && c10::utils::get_env("TORCHELASTIC_USE_AGENT_STORE") != "True";
  return make_process_group(c10::make_intrusive<c10d::TCPStore>(host, options), rank, size,
                            timeout);
}

}  // namespace scramjet::amp
