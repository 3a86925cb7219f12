#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace scramjet::ops {
namespace {

using c10::DispatchKey;

std::vector<c10::OperatorHandle> scramjet_operators() {
  std::vector<c10::OperatorHandle> result;
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (name.getNamespace() == "scramjet") {
      result.push_back(c10::Dispatcher::singleton().findSchemaOrThrow(name.name.c_str(),
                                                                      name.overload_name.c_str()));
    }
  }
  return result;
}

bool has_tag(const c10::OperatorHandle& op, at::Tag tag) {
  const auto& tags = op.getTags();
  return std::find(tags.begin(), tags.end(), tag) != tags.end();
}

// An operator that lacks one of these works until somebody traces, trains, casts or maps it.
TEST(DispatchKeysTest, EveryOperatorHasAKernelForEveryKey) {
  const auto operators = scramjet_operators();
  ASSERT_GE(operators.size(), 2u);
  std::vector<DispatchKey> keys = {DispatchKey::CPU,
                                   DispatchKey::Meta,
                                   DispatchKey::Autograd,
                                   DispatchKey::AutocastCPU,
                                   DispatchKey::AutocastCUDA,
                                   DispatchKey::FuncTorchBatched,
                                   DispatchKey::CompositeExplicitAutograd};
#ifdef SCRAMJET_CUDA
  keys.push_back(DispatchKey::CUDA);
#else
  std::printf("skipped: CUDA keys, this build has no CUDA\n");
#endif
  for (const c10::OperatorHandle& op : operators) {
    for (const DispatchKey key : keys) {
      // Autograd is an alias: its kernel stands under the key of each backend.
      const bool found = key == DispatchKey::Autograd
                             ? op.hasComputedKernelForDispatchKey(DispatchKey::AutogradCPU) &&
                                   op.hasKernelForDispatchKey(key)
                             : op.hasKernelForDispatchKey(key);
      EXPECT_TRUE(found) << toString(op.operator_name()) << " has no kernel for "
                         << c10::toString(key);
    }
    EXPECT_TRUE(has_tag(op, at::Tag::pt2_compliant_tag)) << toString(op.operator_name());
  }
}

}  // namespace
}  // namespace scramjet::ops
