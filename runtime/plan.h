#pragma once

// Plan: `scramjet::Plan` in TorchScript, the part of a compiled module that runs its optimised
// graph.

#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

namespace scramjet::runtime {

// A compiled module has the optimised graph as a method of this name, and its Plan as an attribute.
inline constexpr const char* kOptimisedMethod = "_scramjet_forward";
inline constexpr const char* kPlanAttribute = "_scramjet_plan";

class Plan : public torch::CustomClassHolder {
 public:
  // `report`: what compile() did, group by group, as text; saved with the module.
  explicit Plan(std::string report);
  ~Plan() override;

  const std::string& report() const { return report_; }

  // Runs method kOptimisedMethod of `self` in torch's interpreter, without the profiling executor:
  // the graph stays as it is, and call 1 takes the way of call 1000. stack: [self, inputs...] →
  // [output].
  void run(c10::ivalue::Object& self, torch::jit::Stack& stack);

 private:
  struct Program;
  const Program& program(c10::ivalue::Object& self);

  std::string report_;
  std::atomic<Program*> programs_{
      nullptr};  // one per class: modules that were copied share their plan
  std::mutex make_;
};

}  // namespace scramjet::runtime
