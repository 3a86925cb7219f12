#pragma once

// scramjet::compile: a TorchScript module in, the same module made faster out.
//
//   torch::jit::Module model = torch::jit::load("m.pt");
//   torch::jit::Module fast = scramjet::compile(model);
//   at::Tensor y = fast.forward({x}).toTensor();      // first call compiles for x's dtypes; new
//   sizes never do fast.save("fast.pt");                              // a plain .pt; loading it
//   needs libscramjet.so loaded
//
// The compiled module answers what the original answers, and never fails where it works: what
// cannot be compiled runs as before. Parameters, buffers and submodules are shared with the
// original; numbers and strings that are attributes of the module itself are copied.

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>
#include <torch/csrc/jit/api/module.h>

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#define SCRAMJET_API __attribute__((visibility("default")))

namespace scramjet {

// Mixed precision written into the graph. The answers are those of the original in a region of
// torch.autocast, whatever region the compiled module is called in.
struct AutocastOptions {
  c10::DeviceType device = c10::kCPU;      // CPU or CUDA
  c10::ScalarType dtype = c10::kBFloat16;  // bfloat16 or half
  // By op and overload ("aten::softmax.int"), in place of torch's lists: "fp32",
  // "lower_precision_fp", or "none" for no casts.
  std::map<std::string, std::string> overrides;
};

struct CompileOptions {
  // Throw, with the report, where a pointwise op or a call stays outside the fused groups.
  bool fullgraph = false;
  // One machine code for all sizes. false (specialise on sizes) is not available yet and throws.
  bool dynamic = true;
  // "default". Other modes are not available yet and throw.
  std::string mode = "default";
  // Freeze the module first (torch::jit::freeze): parameters become constants, which lets torch
  // fold batch normalisation into convolutions. The module must be in eval mode. Parameters are
  // then no longer shared.
  bool freeze = false;
  // Allow fused multiply-add and re-association: faster, results differ in the last bits.
  bool fast_math = false;
  // Half and bfloat16: round after each op, as eager does. false: compute a group in float and
  // round its outputs only, which is faster and closer to the exact result, but not what eager
  // answers.
  bool round_like_eager = true;
  // Compile in the background. Not available yet; throws.
  bool async = false;
  // Mixed precision. With `freeze` the weights are cast once, at compile time.
  std::optional<AutocastOptions> autocast = std::nullopt;

  // For finding the cause of a wrong answer: passes to leave out, by name, and the number of
  // rewrites allowed.
  std::vector<std::string> skip_passes;
  int64_t rewrite_budget = std::numeric_limits<int64_t>::max();
};

// Throws c10::ValueError for a module without `forward`, and for an option that is not available.
// A module that is compiled already comes back as it is.
SCRAMJET_API torch::jit::Module compile(const torch::jit::Module& module,
                                        const CompileOptions& options = {});

// What compile() did to a compiled module, group by group: what was fused, and what was not and
// why, with source lines; then, for each group that has run, for which dtypes it has machine code.
// Works on a loaded module too.
SCRAMJET_API std::string explain(const torch::jit::Module& compiled);

// Kernels compiled to machine code in this process so far.
SCRAMJET_API int64_t compilations();

}  // namespace scramjet
