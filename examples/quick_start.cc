#include <torch/script.h>

#include "scripting/compile.h"

int main() {
  const c10::InferenceMode inference;  // without gradients
  torch::jit::Module fast = scramjet::compile(torch::jit::load("model.pt"));
  std::cout << fast.forward({at::rand({3, 4})}) << '\n' << scramjet::explain(fast);
  fast.save("fast.pt");  // a plain .pt
}
