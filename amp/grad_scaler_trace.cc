// Trains as grad_scaler_parity_test.py does and writes what each step left, for comparison:
//
//     grad_scaler_trace train CONFIG.pt TRACE.pt    # CONFIG.pt: see Config
//     grad_scaler_trace resave STATE.pt COPY.pt     # a state dict through a GradScaler
#include <ATen/ops/cat.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/tensor.h>
#include <torch/csrc/jit/serialization/pickle.h>
#include <torch/optim/sgd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "amp/grad_scaler.h"

namespace {

using scramjet::amp::GradScaler;
using scramjet::amp::GradScalerOptions;

c10::IValue read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  TORCH_CHECK(file, "cannot open ", path);
  return torch::jit::pickle_load({std::istreambuf_iterator<char>(file), {}});
}

void write(const std::string& path, const c10::IValue& value) {
  const std::vector<char> bytes = torch::jit::pickle_save(value);
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  TORCH_CHECK(file, "cannot write ", path);
}

/// The dict that the Python side saved; tensors come on the device named in it.
class Config {
 public:
  explicit Config(const std::string& path) : dict_(read(path).toGenericDict()) {}

  c10::IValue operator[](const char* key) const { return dict_.at(key); }
  bool has(const char* key) const { return dict_.contains(key); }
  at::Device device() const { return at::Device((*this)["device"].toStringRef()); }
  at::Tensor tensor(const char* key) const { return (*this)[key].toTensor().to(device()); }
  at::Tensor parameter(const char* key) const { return tensor(key).requires_grad_(); }

 private:
  c10::impl::GenericDict dict_;
};

/// One linear layer with an SGD of its own.
struct Layer {
  at::Tensor weight;
  at::Tensor bias;
  torch::optim::SGD optimizer;

  Layer(const at::Tensor& weight, const at::Tensor& bias, const Config& config)
      : weight(weight),
        bias(bias),
        optimizer(std::vector<at::Tensor>{weight, bias},
                  torch::optim::SGDOptions(config["lr"].toDouble())
                      .momentum(config["momentum"].toDouble())) {}
};

GradScaler make_scaler(const Config& config) {
  GradScaler scaler(config.device().type(),
                    GradScalerOptions()
                        .init_scale(config["init_scale"].toDouble())
                        .growth_interval(config["growth_interval"].toInt()));
  if (config.has("state")) scaler.load_state_dict_file(config["state"].toStringRef());
  return scaler;
}

void train(const std::string& config_path, const std::string& trace_path) {
  const Config config(config_path);
  GradScaler scaler = make_scaler(config);
  Layer a(config.parameter("weight_a"), config.parameter("bias_a"), config);
  Layer b(config.parameter("weight_b"), config.parameter("bias_b"), config);
  const at::Tensor inputs = config.tensor("inputs");
  const at::Tensor targets = config.tensor("targets");
  const at::Tensor poison = config.tensor("poison");  // [steps, 2]: what each loss is multiplied by
  const at::Tensor unscale_first = config["unscale_first"].toTensor();  // [steps], on the CPU
  std::vector<at::Tensor> parameters;
  std::vector<double> scales;
  std::vector<int64_t> trackers;
  std::vector<int64_t> skipped;
  for (int64_t step = 0; step < poison.size(0); ++step) {
    const at::Tensor input = inputs[step % inputs.size(0)];
    const at::Tensor target = targets[step % targets.size(0)];
    const auto loss = [&](const Layer& layer, int64_t index) {
      return (at::linear(input, layer.weight, layer.bias) - target).pow(2).mean() *
             poison[step][index];
    };
    a.optimizer.zero_grad();
    b.optimizer.zero_grad();
    scaler.scale(loss(a, 0)).backward();
    scaler.scale(loss(b, 1)).backward();
    if (unscale_first[step].item<bool>()) scaler.unscale_(a.optimizer);
    skipped.push_back(scaler.step(a.optimizer).skipped() ? 1 : 0);
    skipped.push_back(scaler.step(b.optimizer).skipped() ? 1 : 0);
    scaler.update();
    scales.push_back(scaler.get_scale());
    trackers.push_back(scaler.get_growth_tracker());
    for (const at::Tensor& parameter : {a.weight, a.bias, b.weight, b.bias}) {
      parameters.push_back(parameter.detach().flatten().cpu().clone());
    }
  }
  if (config.has("state_out")) scaler.save_state_dict(config["state_out"].toStringRef());
  write(trace_path, c10::ivalue::Tuple::create(
                        {at::tensor(scales, at::kDouble), at::tensor(trackers, at::kLong),
                         at::tensor(skipped, at::kLong).reshape({-1, 2}), at::cat(parameters)}));
}

void resave(const std::string& from, const std::string& to) {
  GradScaler scaler(at::kCPU);
  scaler.load_state_dict_file(from);
  scaler.save_state_dict(to);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() != 3 || (arguments[0] != "train" && arguments[0] != "resave")) {
    std::fprintf(stderr, "usage: grad_scaler_trace train|resave FROM.pt TO.pt\n");
    return 2;
  }
  try {
    (arguments[0] == "train" ? train : resave)(arguments[1], arguments[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "grad_scaler_trace: %s\n", error.what());
    return 1;
  }
}
