#include "runtime/compare_element.h"

#include <ATen/ops/eq.h>
#include <ATen/ops/ge.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/is_nonzero.h>
#include <ATen/ops/le.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/ne.h>

#include <optional>

#include "runtime/plain_tensor.h"

namespace scramjet::runtime {
namespace {

bool is_comparison(const std::string& name) {
  for (const char* known : {"gt", "lt", "ge", "le", "eq", "ne"}) {
    if (name == known) return true;
  }
  return false;
}

template <class T>
bool compare(T a, T b, const std::string& comparison) {
  if (comparison == "gt") return a > b;
  if (comparison == "lt") return a < b;
  if (comparison == "ge") return a >= b;
  if (comparison == "le") return a <= b;
  return comparison == "eq" ? a == b : a != b;
}

// The element, in bytes from the tensor's first, or nullopt where the selection is not of one
// element.
std::optional<int64_t> offset_of(const at::Tensor& x, at::IntArrayRef dims,
                                 at::IntArrayRef indices) {
  c10::DimVector sizes(x.sizes()), strides(x.strides());
  int64_t offset = 0;
  for (size_t k = 0; k < dims.size(); ++k) {
    const int64_t rank = static_cast<int64_t>(sizes.size());
    const int64_t dim = dims[k] < 0 ? dims[k] + rank : dims[k];
    if (dim < 0 || dim >= rank) return std::nullopt;
    const int64_t index = indices[k] < 0 ? indices[k] + sizes[dim] : indices[k];
    if (index < 0 || index >= sizes[dim]) return std::nullopt;
    offset += index * strides[dim];
    sizes.erase(sizes.begin() + dim);
    strides.erase(strides.begin() + dim);
  }
  if (c10::multiply_integers(sizes) != 1) return std::nullopt;
  return offset;
}

bool through_aten(const at::Tensor& x, at::IntArrayRef dims, at::IntArrayRef indices,
                  const std::string& comparison, const at::Scalar& other) {
  at::Tensor element = x;
  for (size_t k = 0; k < dims.size(); ++k) element = element.select(dims[k], indices[k]);
  const at::Tensor result = comparison == "gt"   ? at::gt(element, other)
                            : comparison == "lt" ? at::lt(element, other)
                            : comparison == "ge" ? at::ge(element, other)
                            : comparison == "le" ? at::le(element, other)
                            : comparison == "eq" ? at::eq(element, other)
                                                 : at::ne(element, other);
  return result.is_nonzero();
}

}  // namespace

bool compare_element(const at::Tensor& x, at::IntArrayRef dims, at::IntArrayRef indices,
                     const std::string& comparison, const at::Scalar& other) {
  // A saved graph may say anything.
  TORCH_CHECK_VALUE(dims.size() == indices.size(),
                    "scramjet::compare_element: argument 'indices' must be as long as 'dims', ",
                    dims.size(), ", got ", indices.size());
  TORCH_CHECK_VALUE(is_comparison(comparison),
                    "scramjet::compare_element: argument 'comparison' must be gt, lt, ge, le, eq "
                    "or ne, got '",
                    comparison, "'");
  // float and double: the number is rounded to the tensor's dtype, as type promotion has it. Others
  // are rarer.
  const bool number = other.isFloatingPoint() || other.isIntegral(/*includeBool=*/false);
  if (number && why_not_plain(x) == nullptr) {
    if (const auto offset = offset_of(x, dims, indices)) {
      if (x.scalar_type() == at::kFloat)
        return compare(x.const_data_ptr<float>()[*offset], static_cast<float>(other.toDouble()),
                       comparison);
      if (x.scalar_type() == at::kDouble)
        return compare(x.const_data_ptr<double>()[*offset], other.toDouble(), comparison);
    }
  }
  return through_aten(x, dims, indices, comparison, other);
}

}  // namespace scramjet::runtime
