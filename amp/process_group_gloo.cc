#define USE_C10D_GLOO
#include <c10/util/env.h>

#include <sstream>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "amp/process_group_backends.h"

namespace scramjet::amp {

c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int rank, int size,
                                                    std::chrono::milliseconds timeout) {
  using c10d::ProcessGroupGloo;
  auto options = ProcessGroupGloo::Options::create(timeout);
  std::istringstream interfaces(c10::utils::get_env("GLOO_SOCKET_IFNAME").value_or(""));
  for (std::string interface; std::getline(interfaces, interface, ',');) {
    options->devices.push_back(ProcessGroupGloo::createDeviceForInterface(interface));
  }
  if (options->devices.empty()) {
    options->devices.push_back(ProcessGroupGloo::createDefaultDevice());
  }
  return c10::make_intrusive<ProcessGroupGloo>(store, rank, size, options);
}

}  // namespace scramjet::amp
