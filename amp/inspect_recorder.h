#pragma once

// Watches the operators of one forward and its backward for inspect().

#include <ATen/record_function.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "amp/inspect.h"

namespace scramjet::amp {

class InspectRecorder : public std::enable_shared_from_this<InspectRecorder> {
 public:
  InspectRecorder(const InspectOptions& options, c10::DeviceType device,
                  const std::vector<std::pair<std::string, at::Tensor>>& parameters);

  /// Calls forward() and looks at each operator that this thread calls in it. Where gradients are
  /// on, backward through what it returned reports to this recorder for as long as it lives.
  c10::IValue watch(const std::function<c10::IValue()>& forward);

  /// The gradient of this tensor is no operator's: it is the 1 that backward starts from.
  void set_loss(const at::Tensor& loss) { loss_ = loss.unsafeGetTensorImpl(); }

  std::vector<OperatorReport>& reports() { return reports_; }

 private:
  struct Call;

  static std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& function);
  static void on_end(const at::RecordFunction& function, at::ObserverContext* context);

  std::unique_ptr<Call> start(const at::RecordFunction& function);
  void end(Call& call, const std::vector<c10::IValue>& outputs);

  std::string layer_of(const std::vector<at::Tensor>& inputs);
  void run_in_format(Call& call, const c10::OperatorHandle& op, at::ArrayRef<c10::IValue> inputs);
  void note_narrow(const Call& call, const std::vector<at::Tensor>& outputs);
  void watch_gradient(size_t report, const at::Tensor& output);

  const c10::ScalarType dtype_;
  const FloatFormat format_;
  const c10::DeviceType device_;
  int depth_ = 0;  // of dispatcher calls: those of operators in operators are not the model's

  std::unordered_map<const void*, std::string> parameter_layers_;  // by storage
  std::string last_layer_;
  std::unordered_set<const void*> narrow_;  // tensors that autocast would hold in the format

  std::map<std::pair<std::string, std::string>, size_t> by_place_;  // layer and operator
  std::vector<OperatorReport> reports_;
  std::mutex gradients_;  // CUDA's are reported from autograd's threads
  const void* loss_ = nullptr;
};

}  // namespace scramjet::amp
