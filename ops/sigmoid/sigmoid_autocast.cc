#include <torch/library.h>

namespace scramjet::ops {
namespace {

/// torch's autocast casts for neither aten::sigmoid nor its backward, on any device: both run in
/// the dtype they are given. A fallthrough costs nothing at run time.
void register_without_cast(torch::Library& m) {
  m.impl("sigmoid", torch::CppFunction::makeFallthrough());
  m.impl("sigmoid_backward", torch::CppFunction::makeFallthrough());
}

}  // namespace

TORCH_LIBRARY_IMPL(scramjet, AutocastCPU, m) { register_without_cast(m); }

TORCH_LIBRARY_IMPL(scramjet, AutocastCUDA, m) { register_without_cast(m); }

}  // namespace scramjet::ops
