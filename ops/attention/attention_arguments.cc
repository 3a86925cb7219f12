#include "ops/attention/attention_arguments.h"

#include <algorithm>

namespace scramjet::ops {
namespace {

void check_dims(const AttentionArguments& call, const char* argument, const at::Tensor& x,
                const char* expected) {
  TORCH_CHECK_VALUE(x.dim() == 4, call.op, ": argument '", argument, "' has shape ", x.sym_sizes(),
                    "; expected ", expected);
}

void check_operand(const AttentionArguments& call, const char* argument, const at::Tensor& x,
                   const char* expected) {
  TORCH_CHECK_TYPE(x.scalar_type() == call.query.scalar_type(), call.op, ": argument '", argument,
                   "' has dtype ", x.scalar_type(), "; expected that of 'query', ",
                   call.query.scalar_type());
  TORCH_CHECK_VALUE(x.device() == call.query.device(), call.op, ": argument '", argument,
                    "' is on ", x.device(), "; expected the device of 'query', ",
                    call.query.device());
  check_dims(call, argument, x, expected);
  TORCH_CHECK_VALUE(x.sym_size(0) == call.query.sym_size(0), call.op, ": argument '", argument,
                    "' has batch ", x.sym_size(0), "; expected that of 'query', ",
                    call.query.sym_size(0));
}

void check_mask(const AttentionArguments& call) {
  const at::ScalarType dtype = call.query.scalar_type();
  const at::ScalarType own = call.mask.scalar_type();
  TORCH_CHECK_TYPE(own == at::kBool || own == dtype || (own == at::kFloat && dtype != at::kDouble),
                   call.op, ": argument 'mask' has dtype ", own,
                   "; expected Bool, that of 'query', ", dtype,
                   ", or Float where that is Half or BFloat16");
  TORCH_CHECK_VALUE(call.mask.device() == call.query.device(), call.op, ": argument 'mask' is on ",
                    call.mask.device(), "; expected the device of 'query', ", call.query.device());
  c10::SymDimVector wanted = attention_logsumexp_sizes(call);
  wanted.push_back(call.key.sym_size(2));
  const int64_t dims = call.mask.dim();
  bool fits = dims <= 4;
  for (int64_t i = 0; fits && i < dims; ++i) {
    const c10::SymInt size = call.mask.sym_size(dims - 1 - i);
    fits = size == 1 || size == wanted[3 - i];
  }
  TORCH_CHECK_VALUE(fits, call.op, ": argument 'mask' has shape ", call.mask.sym_sizes(),
                    "; expected what broadcasts to [batch, heads, queries, keys], ",
                    c10::SymIntArrayRef(wanted));
}

void check_starts(const AttentionArguments& call, const char* argument, const at::Tensor& starts) {
  TORCH_CHECK_TYPE(starts.scalar_type() == at::kLong || starts.scalar_type() == at::kInt, call.op,
                   ": argument '", argument, "' has dtype ", starts.scalar_type(),
                   "; expected Int or Long");
  TORCH_CHECK_VALUE(starts.dim() == 1 && starts.sym_size(0) > 0, call.op, ": argument '", argument,
                    "' has shape ", starts.sym_sizes(), "; expected [sequences + 1]");
  TORCH_CHECK_VALUE(starts.device() == call.query.device(), call.op, ": argument '", argument,
                    "' is on ", starts.device(), "; expected the device of 'query', ",
                    call.query.device());
}

void check_start_values(const AttentionArguments& call, const char* argument,
                        const at::Tensor& starts, int64_t tokens) {
  const at::Tensor values = starts.to(at::kLong).contiguous();
  const auto* data = values.const_data_ptr<int64_t>();
  const int64_t last = values.numel() - 1;
  const bool fits = data[0] == 0 && data[last] == tokens && std::is_sorted(data, data + last + 1);
  TORCH_CHECK_VALUE(fits, call.op, ": argument '", argument, "' goes from ", data[0], " to ",
                    data[last], "; expected numbers that never fall, from 0 to ", tokens);
}

void check_window(const AttentionArguments& call, const char* argument,
                  std::optional<int64_t> value) {
  TORCH_CHECK_VALUE(!value || *value >= 0, call.op, ": argument '", argument, "' is ",
                    value.value_or(0), "; expected 0 or more, or none for all keys");
}

void check_sizes(const AttentionArguments& call, const char* argument, const at::Tensor& x,
                 c10::SymIntArrayRef sizes, at::ScalarType dtype) {
  TORCH_CHECK_VALUE(x.sym_sizes().equals(sizes), call.op, ": argument '", argument, "' has shape ",
                    x.sym_sizes(), "; expected ", sizes);
  TORCH_CHECK_TYPE(x.scalar_type() == dtype, call.op, ": argument '", argument, "' has dtype ",
                   x.scalar_type(), "; expected ", dtype);
  TORCH_CHECK_VALUE(x.device() == call.query.device(), call.op, ": argument '", argument,
                    "' is on ", x.device(), "; expected the device of 'query', ",
                    call.query.device());
}

}  // namespace

c10::SymDimVector attention_logsumexp_sizes(const AttentionArguments& call) {
  return {call.query.sym_size(0), call.query.sym_size(1), call.query.sym_size(2)};
}

c10::SymDimVector attention_output_sizes(const AttentionArguments& call) {
  c10::SymDimVector sizes = attention_logsumexp_sizes(call);
  sizes.push_back(call.value.sym_size(3));
  return sizes;
}

void check_attention(const AttentionArguments& call) {
  check_floating(call.op, "query", call.query);
  check_dims(call, "query", call.query, "[batch, heads, queries, dim]");
  check_operand(call, "key", call.key, "[batch, key_heads, keys, dim]");
  check_operand(call, "value", call.value, "[batch, key_heads, keys, value_dim]");
  TORCH_CHECK_VALUE(call.key.sym_size(3) == call.query.sym_size(3), call.op,
                    ": argument 'key' has dim ", call.key.sym_size(3),
                    "; expected that of 'query', ", call.query.sym_size(3));
  TORCH_CHECK_VALUE(call.value.sym_size(1) == call.key.sym_size(1), call.op,
                    ": argument 'value' has ", call.value.sym_size(1),
                    " heads; expected those of 'key', ", call.key.sym_size(1));
  TORCH_CHECK_VALUE(call.value.sym_size(2) == call.key.sym_size(2), call.op,
                    ": argument 'value' has ", call.value.sym_size(2),
                    " rows; expected those of 'key', ", call.key.sym_size(2));
  const bool divides = call.key.sym_size(1) == 0
                           ? call.query.sym_size(1) == 0
                           : call.query.sym_size(1) % call.key.sym_size(1) == 0;
  TORCH_CHECK_VALUE(divides, call.op, ": argument 'key' has ", call.key.sym_size(1),
                    " heads; expected a number that divides those of 'query', ",
                    call.query.sym_size(1));
  check_window(call, "window_left", call.options.window_left);
  check_window(call, "window_right", call.options.window_right);
  if (call.mask.defined()) check_mask(call);
  if (!call.is_varlen()) return;
  check_starts(call, "query_starts", *call.query_starts);
  check_starts(call, "key_starts", *call.key_starts);
  TORCH_CHECK_VALUE(call.query_starts->sym_size(0) == call.key_starts->sym_size(0), call.op,
                    ": argument 'key_starts' has shape ", call.key_starts->sym_sizes(),
                    "; expected that of 'query_starts', ", call.query_starts->sym_sizes());
}

void check_attention_starts(const AttentionArguments& call) {
  if (!call.is_varlen()) return;
  check_start_values(call, "query_starts", *call.query_starts, call.query.size(2));
  check_start_values(call, "key_starts", *call.key_starts, call.key.size(2));
}

c10::SymDimVector attention_strides(const AttentionArguments& call, c10::SymIntArrayRef sizes) {
  const c10::SymInt& columns = sizes[3];
  if (!call.is_varlen()) {
    const c10::SymInt head = sizes[2] * columns;
    return {sizes[1] * head, head, columns, 1};
  }
  const c10::SymInt token = sizes[1] * columns;
  return {sizes[2] * token, columns, token, 1};
}

void check_attention_backward(const AttentionArguments& call, const AttentionResults& results) {
  check_attention(call);
  const c10::SymDimVector output = attention_output_sizes(call);
  const c10::SymDimVector logsumexp = attention_logsumexp_sizes(call);
  check_sizes(call, "grad_output", results.grad_output, output, call.query.scalar_type());
  check_sizes(call, "output", results.output, output, call.query.scalar_type());
  check_sizes(call, "logsumexp", results.logsumexp, logsumexp, call.compute_dtype());
  if (results.grad_logsumexp.defined()) {
    check_sizes(call, "grad_logsumexp", results.grad_logsumexp, logsumexp, call.compute_dtype());
  }
}

}  // namespace scramjet::ops
