// Serves a TorchScript model whose one input is a float row: a line of numbers in, a line of
// numbers out.
//
//   .venv/bin/python examples/gate.py model.pt
//   bazel build //examples:serve
//   printf '1 2 3 4\n4 3 2 1\n' | bazel-bin/examples/serve model.pt
//
// The model is loaded and compiled once. The report goes to standard error at the end.

#include <torch/script.h>

#include <iostream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "scripting/compile.h"

namespace {

// "1 2.5 -3" as a float tensor of shape [1, 3].
at::Tensor read_row(const std::string& line) {
  std::istringstream in(line);
  const std::vector<float> numbers{std::istream_iterator<float>(in), {}};
  TORCH_CHECK_VALUE(in.eof() && !numbers.empty(), "expected numbers between spaces, got '", line,
                    "'");
  return at::tensor(numbers).unsqueeze(0);
}

void print_row(const at::Tensor& row) {
  for (int64_t k = 0; k < row.numel(); ++k)
    std::cout << (k ? " " : "") << row.flatten()[k].item<float>();
  std::cout << std::endl;
}

void serve(const std::string& path) {
  const c10::InferenceMode inference;
  torch::jit::Module model = torch::jit::load(path);
  model.eval();
  torch::jit::Module fast = scramjet::compile(model);
  for (std::string line; std::getline(std::cin, line);)
    print_row(fast.forward({read_row(line)}).toTensor());
  std::cerr << scramjet::explain(fast);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: serve MODEL.pt < rows of numbers\n";
    return 2;
  }
  try {
    serve(argv[1]);
  } catch (const c10::Error& error) {
    std::cerr << "serve: " << error.what_without_backtrace() << '\n';
    return 1;
  }
  return 0;
}
