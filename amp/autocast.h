#pragma once

// Automatic mixed precision for a piece of C++: inside the region, torch runs matrix products in a
// narrow dtype and what needs range or precision in float32, as `torch.autocast` does in Python.
// Use it around a model's forward and its loss; run backward outside.
//
//     {
//       const scramjet::amp::Autocast autocast(at::kCUDA);  // half; on CPU bfloat16
//       loss = at::mse_loss(model->forward(x), y);
//     }
//     loss.backward();
//
// Rules:
// - Which operator runs in which dtype: amp/cast_policy.h. Parameters stay float32, and so do
//   their gradients.
// - The casts of parameters are kept until the outermost region ends, normally or by an exception,
//   so change parameters outside of regions. Views are cast anew each time: among them the
//   transposed weight that torch::nn::Linear hands to ATen, unlike at::linear and Python's.
// - Regions nest, also with `enabled = false`; a region's end restores what its start found. End
//   regions in the thread that began them, innermost first, as scopes do.
// - The state is the thread's. A std::thread begun in a region is outside of it, and so are the
//   threads of at::parallel_for but the caller. at::launch, TorchScript's fork and autograd's
//   device threads take over from their caller whether autocast is on and its dtype, and not its
//   cache switch. Begin a region in each thread of your own.
// - It holds for ATen's operators, hence for torch::nn, and for Scramjet's.
//
// A scripted module may be called in a region, but plain TorchScript then rewrites its graph by
// CUDA's cast list on any device: on CPU some results are float32 where eager's are bfloat16.
// To run as eager does, before the module's first call and around all of them:
//
//     torch::jit::setAutocastMode(false);                         // jit/passes/autocast.h
//     const torch::jit::GraphOptimizerEnabledGuard plain(false);  // jit/runtime/graph_executor.h
//
// The first is a setting of the process. The second, of the thread, is for training: TorchScript's
// own backward fails on the dtypes of a region. To train with its optimisation leave both; dtypes
// then differ as said, and gradients are right.

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <optional>

namespace scramjet::amp {

struct AutocastOptions {
  /// bfloat16 or half. Default: the thread's autocast dtype for the device.
  std::optional<c10::ScalarType> dtype = std::nullopt;
  /// False for a region in the tensors' own dtypes; cast the inputs that come from outside.
  bool enabled = true;
  /// Whether casts of parameters are kept. Default: as around the region.
  std::optional<bool> cache_enabled = std::nullopt;
};

class Autocast {
 public:
  /// Throws c10::Error where torch has no autocast for `device`, and where the dtype is bfloat16
  /// and the CUDA device cannot hold it. Warns, and begins a disabled region, where there is no
  /// CUDA device, and where another device is asked for a dtype but bfloat16 or half.
  explicit Autocast(c10::DeviceType device, AutocastOptions options = {});
  ~Autocast();

  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
  Autocast(Autocast&&) = delete;
  Autocast& operator=(Autocast&&) = delete;

 private:
  c10::DeviceType device_;
  c10::ScalarType previous_dtype_;
  bool previous_enabled_;
  bool previous_cache_enabled_;
};

}  // namespace scramjet::amp
