#include "ops/argument_checks.h"

#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

namespace scramjet::ops {
namespace {

bool is_supported_floating(at::ScalarType dtype) {
  return dtype == at::kFloat || dtype == at::kDouble || dtype == at::kHalf ||
         dtype == at::kBFloat16;
}

}  // namespace

void check_floating(const char* op, const char* argument, const at::Tensor& x) {
  TORCH_CHECK_TYPE(is_supported_floating(x.scalar_type()), op, ": argument '", argument,
                   "' has dtype ", x.scalar_type(), "; expected Float, Double, Half or BFloat16");
}

void check_real(const char* op, const char* argument, const at::Tensor& x) {
  TORCH_CHECK_TYPE(is_supported_floating(x.scalar_type()) ||
                       at::isIntegralType(x.scalar_type(), /*includeBool=*/true),
                   op, ": argument '", argument, "' has dtype ", x.scalar_type(),
                   "; expected Float, Double, Half, BFloat16, an integer type or Bool");
}

void check_alike(const char* op, const char* argument, const at::Tensor& x,
                 const char* other_argument, const at::Tensor& other) {
  TORCH_CHECK_TYPE(x.scalar_type() == other.scalar_type(), op, ": argument '", argument,
                   "' has dtype ", x.scalar_type(), "; expected that of '", other_argument, "', ",
                   other.scalar_type());
  TORCH_CHECK_VALUE(x.sym_sizes().equals(other.sym_sizes()), op, ": argument '", argument,
                    "' has shape ", x.sym_sizes(), "; expected that of '", other_argument, "', ",
                    other.sym_sizes());
  TORCH_CHECK_VALUE(x.device() == other.device(), op, ": argument '", argument, "' is on ",
                    x.device(), "; expected the device of '", other_argument, "', ",
                    other.device());
}

void fail_unsupported(const char* op, const char* argument, const at::Tensor& x) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, op, ": argument '", argument, "' is a ",
                              x.is_quantized() ? "quantized" : "", x.is_quantized() ? " " : "",
                              x.layout(), " tensor on ", x.device(),
                              "; expected a dense (strided) tensor on cpu, or on cuda where "
                              "Scramjet and torch were built with CUDA");
}

}  // namespace scramjet::ops
