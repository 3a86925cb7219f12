// The command line: scramjet compile | run | bench | explain | dump | doctor | formats. See --help.

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/jit/serialization/import.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "scripting/compile.h"
#include "scripting/inspect.h"
#include "scripting/measure.h"
#include "scripting/read_input.h"
#include "tools/doctor/doctor.h"
#include "tools/formats.h"

namespace {

struct Arguments {
  std::string model, output, stage = "graph", json;
  std::vector<std::string> inputs;
  std::vector<std::string> variants = {"torchscript", "scramjet"};
  std::string warm_up;
  std::string dtype = "half", loss, target, autocast_device = "cpu";
  double tolerance = 8;
  bool train = false;
  std::optional<double> number;
  int runs = 50, threads = 0;
  bool plain = false;
  scramjet::CompileOptions options;
};

torch::jit::Module load(const std::string& path) {
  std::cerr << "loading " << path << '\n';
  torch::jit::Module module = torch::jit::load(path);
  module.eval();
  return module;
}

std::vector<c10::IValue> read_inputs(const Arguments& arguments) {
  std::vector<c10::IValue> inputs;
  for (const std::string& text : arguments.inputs) inputs.push_back(scramjet::read_input(text));
  return inputs;
}

torch::jit::Module compile(const torch::jit::Module& module, const Arguments& arguments) {
  std::cerr << "compiling\n";
  return scramjet::compile(module, arguments.options);
}

void run_compile(const Arguments& arguments) {
  compile(load(arguments.model), arguments).save(arguments.output);
  std::cerr << "wrote " << arguments.output << '\n';
}

void run_run(const Arguments& arguments) {
  const c10::NoGradGuard no_grad;
  torch::jit::Module module = load(arguments.model);
  if (!arguments.plain) module = compile(module, arguments);
  std::cout << module.forward(read_inputs(arguments)) << '\n';
}

void run_explain(const Arguments& arguments) {
  torch::jit::Module module = compile(load(arguments.model), arguments);
  if (!arguments.inputs.empty()) {
    const c10::NoGradGuard no_grad;
    module.forward(read_inputs(arguments));
  }
  std::cout << scramjet::explain(module);
}

void run_dump(const Arguments& arguments) {
  const c10::NoGradGuard no_grad;
  torch::jit::Module module = compile(load(arguments.model), arguments);
  const bool machine = arguments.stage == "llvm" || arguments.stage == "asm";
  TORCH_CHECK_VALUE(!machine || !arguments.inputs.empty(), "dump --stage ", arguments.stage,
                    ": --input is needed: machine code is made for the inputs' dtypes");
  if (!arguments.inputs.empty()) module.forward(read_inputs(arguments));
  std::cout << scramjet::dump_stage(module, arguments.stage);
}

void write_json(const std::string& path, const nlohmann::json& json) {
  std::ofstream file(path);
  file << json.dump(1) << '\n';
  TORCH_CHECK_VALUE(file.good(), "cannot write --json '", path, "'");
}

void run_doctor(const Arguments& arguments) {
  torch::jit::Module module = load(arguments.model);
  module.train(arguments.train);
  const std::vector<c10::IValue> inputs = read_inputs(arguments);
  scramjet::amp::InspectOptions options;
  options.dtype = arguments.dtype == "half" ? c10::kHalf : c10::kBFloat16;
  options.device = arguments.autocast_device == "cuda" ? c10::kCUDA : c10::kCPU;
  options.tolerance = arguments.tolerance;
  if (!arguments.loss.empty()) {
    std::optional<at::Tensor> target;
    if (!arguments.target.empty()) target = scramjet::read_input(arguments.target).toTensor();
    options.loss = scramjet::loss_named(arguments.loss, target);
  }
  std::cerr << "running the model, and each operator in " << arguments.dtype << " too\n";
  const scramjet::amp::Inspection found = scramjet::amp::inspect(module, inputs, options);
  std::optional<scramjet::AutocastTrial> trial;
  if (arguments.autocast_device == "cpu") {
    std::cerr << "trying the model under autocast\n";
    trial = scramjet::try_autocast(module, inputs, options.dtype, found.keep_in_fp32());
  }
  std::cout << scramjet::diagnosis_text(found, trial);
  if (!arguments.json.empty()) {
    write_json(arguments.json, scramjet::diagnosis_json(found, trial));
  }
}

void print_table(const std::vector<scramjet::Timing>& timings, double difference) {
  std::printf("%-14s %12s %12s %14s %14s %8s\n", "variant", "ms min", "ms median", "first call ms",
              "second call ms", "ratio");
  for (const scramjet::Timing& t : timings) {
    std::printf("%-14s %12.4f %12.4f %14.2f %14.2f %8.2f\n", t.variant.c_str(), t.ms_min,
                t.ms_median, t.first_call_ms, t.second_call_ms, timings.front().ms_min / t.ms_min);
  }
  std::printf("largest difference %g, threads %d\n", difference, at::get_num_threads());
}

nlohmann::json to_json(const std::string& name, const std::vector<scramjet::Timing>& timings,
                       double difference) {
  nlohmann::json records = nlohmann::json::array();
  for (const scramjet::Timing& t : timings) {
    records.push_back({{"case", name},
                       {"variant", t.variant},
                       {"threads", at::get_num_threads()},
                       {"ms_min", t.ms_min},
                       {"ms_median", t.ms_median},
                       {"first_call_ms", t.first_call_ms},
                       {"second_call_ms", t.second_call_ms},
                       {"max_abs_err", difference}});
  }
  return records;
}

void run_bench(const Arguments& arguments) {
  const c10::NoGradGuard no_grad;
  const std::vector<c10::IValue> inputs = read_inputs(arguments);
  if (!arguments.warm_up.empty()) {
    torch::jit::Module other = load(arguments.warm_up);
    for (int k = 0; k < 3; ++k) other.forward({});
  }
  const torch::jit::Module module = load(arguments.model);
  const auto variant = [&](const std::string& name) {  // each a copy with state of its own
    return scramjet::Variant{
        name, name == "scramjet" ? compile(module.deepcopy(), arguments) : module.deepcopy()};
  };
  std::vector<scramjet::Variant> timed;
  for (const std::string& name : arguments.variants) timed.push_back(variant(name));
  const auto timings = scramjet::measure(timed, inputs, arguments.runs);
  const double difference = scramjet::largest_difference(
      variant("torchscript").module.forward(inputs), variant("scramjet").module.forward(inputs));
  print_table(timings, difference);
  if (!arguments.json.empty()) {
    write_json(arguments.json, to_json(arguments.model, timings, difference));
  }
}

CLI::App* add_model_command(CLI::App& app, Arguments& arguments, const char* name, const char* help,
                            void (*run)(const Arguments&)) {
  CLI::App* command = app.add_subcommand(name, help);
  command->add_option("model", arguments.model, "a TorchScript file, from torch.jit.save")
      ->required()
      ->check(CLI::ExistingFile);
  command->add_option("--threads", arguments.threads, "threads to use (default: torch's)")
      ->check(CLI::PositiveNumber);
  command->final_callback([&arguments, run] {
    if (arguments.threads > 0) at::set_num_threads(arguments.threads);
    run(arguments);
  });
  return command;
}

void add_compile_options(CLI::App* command, Arguments& arguments) {
  command->add_flag("--fullgraph", arguments.options.fullgraph,
                    "fail, with a report, where a pointwise op stays unfused");
  command->add_flag("--freeze", arguments.options.freeze,
                    "fold the parameters into the graph first");
  command->add_flag("--fast-math", arguments.options.fast_math,
                    "allow fused multiply-add and re-association");
  command->add_flag("--round-like-eager,!--round-once", arguments.options.round_like_eager,
                    "half and bfloat16: round after each op (default), or once per fused group");
  command
      ->add_option_function<std::string>(
          "--autocast",
          [&arguments](const std::string& dtype) {
            arguments.options.autocast.emplace().dtype =
                dtype == "half" ? c10::kHalf : c10::kBFloat16;
          },
          "mixed precision on the CPU, as under torch.autocast: bfloat16 or half")
      ->check(CLI::IsMember({"bfloat16", "half"}));
  command->add_option("--skip", arguments.options.skip_passes,
                      "a pass to leave out, to find the cause of a wrong answer");
  command->add_option("--rewrites", arguments.options.rewrite_budget,
                      "how many rewrites to allow, for the same");
}

CLI::App* add_command(CLI::App& app, Arguments& arguments, const char* name, const char* help,
                      void (*run)(const Arguments&)) {
  CLI::App* command = add_model_command(app, arguments, name, help, run);
  add_compile_options(command, arguments);
  return command;
}

CLI::Option* add_inputs(CLI::App* command, Arguments& arguments) {
  return command->add_option("--input,-i", arguments.inputs,
                             "an input, once per input of the model: a shape such as "
                             "1x3x224x224:float, int=16000, float=0.5, "
                             "bool=true, none, or a .npy, .wav or .pt file");
}

void add_doctor_command(CLI::App& app, Arguments& arguments) {
  CLI::App* command = add_model_command(
      app, arguments, "doctor",
      "say what half or bfloat16 would overflow, flush or round badly, layer by layer, and what to "
      "do about it",
      run_doctor);
  add_inputs(command, arguments);
  command->add_option("--dtype", arguments.dtype, "half (default) or bfloat16")
      ->check(CLI::IsMember({"half", "bfloat16"}));
  command
      ->add_option("--loss", arguments.loss,
                   "look at gradients too, of this loss: output (the model's output is the loss), "
                   "sum, mean, or with --target mse or cross_entropy")
      ->check(CLI::IsMember({"output", "sum", "mean", "mse", "cross_entropy"}));
  command->add_option("--target", arguments.target, "the loss's target, as an --input")
      ->needs("--loss");
  command->add_flag("--train", arguments.train, "in train mode (default: eval)");
  command
      ->add_option("--device", arguments.autocast_device,
                   "cpu (default) or cuda: whose autocast keeps what in float32")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  command
      ->add_option("--tolerance", arguments.tolerance,
                   "the error, in epsilons, from which an operator should stay in float32 "
                   "(default 8)")
      ->check(CLI::PositiveNumber);
  command->add_option("--json", arguments.json, "also write the numbers to this file");
}

void add_formats_command(CLI::App& app, Arguments& arguments) {
  CLI::App* command = app.add_subcommand(
      "formats", "print the floating-point formats, or what becomes of a number in each");
  command->add_option("number", arguments.number, "a number, such as 100.3");
  command->final_callback([&arguments] {
    std::cout << (arguments.number.has_value() ? scramjet::formats_text(*arguments.number)
                                               : scramjet::formats_text());
  });
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Makes TorchScript models faster. Example: scramjet bench model.pt --input 1x3x224x224:float",
      "scramjet");
  app.require_subcommand(1);
  Arguments arguments;
  add_command(app, arguments, "compile", "write a compiled model", run_compile)
      ->add_option("-o,--output", arguments.output, "the .pt file to write")
      ->required();
  CLI::App* run = add_command(app, arguments, "run",
                              "compile a model, run it once and print its answer", run_run);
  add_inputs(run, arguments);
  run->add_flag("--plain", arguments.plain, "run the model as it is, uncompiled");
  CLI::App* bench = add_command(app, arguments, "bench",
                                "time a model, plain TorchScript against compiled", run_bench);
  add_inputs(bench, arguments);
  bench->add_option("--runs", arguments.runs, "calls of each variant (default 50)")
      ->check(CLI::PositiveNumber);
  bench->add_option("--json", arguments.json, "also write the numbers to this file");
  bench
      ->add_option("--variant", arguments.variants,
                   "torchscript, scramjet (default: both, in turn)")
      ->check(CLI::IsMember({"torchscript", "scramjet"}));
  bench
      ->add_option("--warm-up", arguments.warm_up,
                   "a model without inputs to run before anything is timed")
      ->check(CLI::ExistingFile);
  add_inputs(add_command(app, arguments, "explain", "say what was fused, and what was not and why",
                         run_explain),
             arguments);
  CLI::App* dump =
      add_command(app, arguments, "dump", "print one stage of the compilation", run_dump);
  add_inputs(dump, arguments);
  dump->add_option("--stage", arguments.stage, "graph, kernel, llvm or asm (default graph)")
      ->check(CLI::IsMember({"graph", "kernel", "llvm", "asm"}));
  add_doctor_command(app, arguments);
  add_formats_command(app, arguments);
  try {
    CLI11_PARSE(app, argc, argv);
  } catch (const c10::Error& error) {
    std::cerr << "scramjet: " << error.what_without_backtrace() << '\n';
    return 1;
  } catch (const std::exception& error) {
    std::cerr << "scramjet: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
