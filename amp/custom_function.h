#pragma once

// The dtypes of a C++ autograd function under autocast: `torch.amp.custom_fwd` and `custom_bwd`,
// for C++. Use it where a function of your own calls ATen operators that autocast would cast in
// forward and not in backward, or where its kernel takes one dtype only.
//
//     struct MyMm : scramjet::amp::CustomFunction<MyMm, at::kCUDA, at::kFloat> {
//       static at::Tensor forward(AutogradContext* ctx, const at::Tensor& a, const at::Tensor& b) {
//         ctx->save_for_backward({a, b});
//         return a.mm(b);
//       }
//       static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
//         const variable_list saved = ctx->get_saved_variables();
//         return {grads[0].mm(saved[1].t()), saved[0].t().mm(grads[0])};
//       }
//     };
//     at::Tensor y = MyMm::apply(a, b);
//
// Rules, for tensors and autocast of the named device:
// - Without the third argument, forward runs in the caller's autocast state.
// - With it, and autocast on: floating-point tensors but double are cast to that dtype, alone and
//   in std::optional, lists and vectors; then forward runs with autocast off. With autocast off,
//   nothing is cast.
// - Backward runs in the state that forward ran in, whatever the state of the thread that runs it.
// - The casts are part of forward: autograd casts the gradients back to the inputs' dtypes.
//
// Where the device is known at run time only, derive from torch::autograd::Function as ever and
// open the scopes by hand, first thing in forward and in backward:
//
//     amp::ForwardScope scope(ctx, a.device().type(), at::kFloat);  // forward
//     const at::Tensor x = scope.cast(a);
//     const amp::BackwardScope scope(ctx);                           // backward

#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "amp/autocast.h"

namespace scramjet::amp {

namespace detail {

template <typename T>
inline constexpr bool kHoldsTensors =
    std::is_same_v<T, at::Tensor> || std::is_same_v<T, std::optional<at::Tensor>> ||
    std::is_same_v<T, at::TensorList> || std::is_same_v<T, std::vector<at::Tensor>>;

}  // namespace detail

/// While it lives, forward's autocast state; `ctx` keeps it for backward.
class ForwardScope {
 public:
  ForwardScope(torch::autograd::AutogradContext* ctx, c10::DeviceType device,
               std::optional<c10::ScalarType> cast_inputs = std::nullopt);

  /// Tensors in the dtype that forward must see them in; whatever else comes back as it is.
  at::Tensor cast(const at::Tensor& value) const;
  std::optional<at::Tensor> cast(const std::optional<at::Tensor>& value) const;
  std::vector<at::Tensor> cast(at::TensorList values) const;
  std::vector<at::Tensor> cast(const std::vector<at::Tensor>& values) const;
  template <typename T>
  requires(!detail::kHoldsTensors<std::remove_cvref_t<T>>) T && cast(T&& value)
  const { return std::forward<T>(value); }

 private:
  c10::DeviceType device_;
  // Set where autocast was on: what to cast to.
  std::optional<c10::ScalarType> cast_to_;
  std::optional<Autocast> disabled_;
};

/// While it lives, the autocast state of the forward that had a ForwardScope with the same `ctx`.
class BackwardScope {
 public:
  explicit BackwardScope(torch::autograd::AutogradContext* ctx);

 private:
  Autocast autocast_;
};

namespace detail {

/// What autograd sees: the user's function, each half in its scope. cast_inputs: Undefined for
/// none.
template <typename T, c10::DeviceType device, c10::ScalarType cast_inputs>
struct ScopedFunction : torch::autograd::Function<ScopedFunction<T, device, cast_inputs>> {
  static constexpr bool is_traceable = T::is_traceable;

  template <typename... Args>
  static auto forward(torch::autograd::AutogradContext* ctx, Args&&... args) {
    const ForwardScope scope(ctx, device,
                             cast_inputs == c10::ScalarType::Undefined
                                 ? std::nullopt
                                 : std::optional<c10::ScalarType>(cast_inputs));
    return T::forward(ctx, scope.cast(std::forward<Args>(args))...);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 const torch::autograd::variable_list& grads) {
    const BackwardScope scope(ctx);
    return T::backward(ctx, grads);
  }
};

}  // namespace detail

/// Derive from it in place of torch::autograd::Function<T>; see the top of this file.
template <typename T, c10::DeviceType device,
          c10::ScalarType cast_inputs = c10::ScalarType::Undefined>
struct CustomFunction {
  /// As torch::autograd::Function's: set it to true where compiled autograd may trace backward.
  static constexpr bool is_traceable = false;

  template <typename... Args>
  static auto apply(Args&&... args) {
    return detail::ScopedFunction<T, device, cast_inputs>::apply(std::forward<Args>(args)...);
  }
};

}  // namespace scramjet::amp
