#include "scripting/attached_kernels.h"

#include <torch/custom_class.h>

namespace scramjet {

std::vector<c10::intrusive_ptr<runtime::KernelObject>> attached_kernels(
    const torch::jit::Module& module) {
  const auto kernel_type = c10::getCustomClassType<c10::intrusive_ptr<runtime::KernelObject>>();
  std::vector<c10::intrusive_ptr<runtime::KernelObject>> kernels;
  const auto object = module._ivalue();
  for (size_t k = 0; k < object->type()->numAttributes(); ++k) {
    if (*object->type()->getAttribute(k) != *kernel_type) continue;
    kernels.push_back(object->getSlot(k).toCustomClass<runtime::KernelObject>());
  }
  return kernels;
}

}  // namespace scramjet
