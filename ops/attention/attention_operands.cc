#include "ops/attention/attention_operands.h"

namespace scramjet::ops {
namespace {

AttentionMask::Kind kind_of(const AttentionArguments& call) {
  if (!call.mask.defined()) return AttentionMask::kNone;
  const at::ScalarType dtype = call.mask.scalar_type();
  if (dtype == at::kBool) return AttentionMask::kBool;
  return dtype == call.query.scalar_type() ? AttentionMask::kOwn : AttentionMask::kFloat;
}

}  // namespace

at::Tensor with_dense_rows(const at::Tensor& x) {
  return x.size(3) <= 1 || x.stride(3) == 1 ? x : x.contiguous();
}

AttentionOperand attention_operand(const at::Tensor& x) {
  return {const_cast<char*>(static_cast<const char*>(x.const_data_ptr())), x.stride(0), x.stride(1),
          x.stride(2)};
}

AttentionOperands::AttentionOperands(const AttentionArguments& call,
                                     const AttentionOutputs& outputs)
    : query_(with_dense_rows(call.query)),
      key_(with_dense_rows(call.key)),
      value_(with_dense_rows(call.value)) {
  problem_.batch = query_.size(0);
  problem_.heads = query_.size(1);
  problem_.key_heads = key_.size(1);
  problem_.queries = query_.size(2);
  problem_.keys = key_.size(2);
  problem_.dim = query_.size(3);
  problem_.value_dim = value_.size(3);
  problem_.scale = call.scale();
  problem_.left = call.left();
  problem_.right = call.right();
  problem_.query = attention_operand(query_);
  problem_.key = attention_operand(key_);
  problem_.value = attention_operand(value_);
  problem_.output = attention_operand(outputs.output);
  problem_.logsumexp =
      const_cast<char*>(static_cast<const char*>(outputs.logsumexp.const_data_ptr()));
  if (call.is_varlen()) {
    query_starts_ = call.query_starts->to(at::kLong).contiguous();
    key_starts_ = call.key_starts->to(at::kLong).contiguous();
    problem_.sequences = query_starts_.numel() - 1;
    problem_.query_starts = query_starts_.const_data_ptr<int64_t>();
    problem_.key_starts = key_starts_.const_data_ptr<int64_t>();
  }
  if (call.mask.defined()) {
    mask_ = call.mask.expand({problem_.batch, problem_.heads, problem_.queries, problem_.keys});
    problem_.mask = {kind_of(call),   static_cast<const char*>(mask_.const_data_ptr()),
                     mask_.stride(0), mask_.stride(1),
                     mask_.stride(2), mask_.stride(3)};
  }
}

AttentionBackwardOperands::AttentionBackwardOperands(const AttentionArguments& call,
                                                     const AttentionResults& results,
                                                     const AttentionGradientOutputs& gradients,
                                                     const at::Tensor& delta)
    : outputs_{with_dense_rows(results.output), results.logsumexp.contiguous()},
      operands_(call, outputs_),
      grad_output_(with_dense_rows(results.grad_output)) {
  gradients_.grad_output = attention_operand(grad_output_);
  gradients_.delta = static_cast<char*>(delta.mutable_data_ptr());
  gradients_.grad_query = attention_operand(gradients.query);
  gradients_.grad_key = attention_operand(gradients.key);
  gradients_.grad_value = attention_operand(gradients.value);
  if (results.grad_logsumexp.defined()) {
    grad_logsumexp_ = results.grad_logsumexp.contiguous();
    gradients_.grad_logsumexp = static_cast<const char*>(grad_logsumexp_.const_data_ptr());
  }
}

}  // namespace scramjet::ops
