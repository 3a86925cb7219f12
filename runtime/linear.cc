#include "runtime/linear.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/linear.h>

#include "runtime/output_memory.h"
#include "runtime/plain_tensor.h"

namespace scramjet::runtime {
namespace {

constexpr int64_t kWorthIt = int64_t{2} << 20;  // bytes: a huge page

// at::linear is one addmm then.
bool is_one_product(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias) {
  return input.dim() == 2 && weight.dim() == 2 && bias.dim() == 1 &&
         input.scalar_type() == weight.scalar_type() && input.scalar_type() == bias.scalar_type() &&
         input.size(1) == weight.size(1) && bias.size(0) == weight.size(0);
}

bool is_ordinary(const at::Tensor& tensor) {
  return why_not_plain(tensor) == nullptr && why_not_autograd(tensor) == nullptr;
}

}  // namespace

at::Tensor linear(const at::Tensor& input, const at::Tensor& weight,
                  const std::optional<at::Tensor>& bias) {
  const bool ordinary = bias && why_not_mode() == nullptr && is_ordinary(input) &&
                        is_ordinary(weight) && is_ordinary(*bias);
  if (!ordinary || !is_one_product(input, weight, *bias)) return at::linear(input, weight, bias);
  const int64_t rows = input.size(0), columns = weight.size(0);
  if (rows * columns * static_cast<int64_t>(input.element_size()) < kWorthIt)
    return at::linear(input, weight, bias);
  at::Tensor result = allocate_output({rows, columns}, {columns, 1}, input.scalar_type());
  return at::addmm_out(result, *bias, input, weight.t());
}

}  // namespace scramjet::runtime
