#include "codegen/cpu/target.h"

#include <c10/util/Exception.h>
#include <llvm/ADT/StringMap.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/TargetParser/Host.h>

#include <mutex>

namespace scramjet::codegen::cpu {
namespace {

void initialise_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
}

bool has(const char* feature) {
  static const llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  const auto found = features.find(feature);
  return found != features.end() && found->second;
}

}  // namespace

bool host_supports(Target target) {
  switch (target) {
    case Target::kAvx512:
      return has("avx512f") && has("avx512bw") && has("avx512dq") && has("avx512vl") && has("f16c");
    case Target::kAvx2:
      return has("avx2") && has("fma") && has("f16c");
    default:
      return true;
  }
}

Target resolve(Target target) {
  if (target != Target::kHost) return target;
  return host_supports(Target::kAvx512) ? Target::kAvx512
         : host_supports(Target::kAvx2) ? Target::kAvx2
                                        : Target::kSse;
}

VectorUnit vector_unit(Target target) {
  switch (resolve(target)) {
    case Target::kAvx512:
      return {64, 32};
    case Target::kAvx2:
      return {32, 16};
    default:
      return {16, 16};
  }
}

llvm::orc::JITTargetMachineBuilder target_machine_builder(Target target) {
  initialise_llvm();
  auto builder = llvm::cantFail(llvm::orc::JITTargetMachineBuilder::detectHost());
  const Target resolved = resolve(target);
  if (resolved != resolve(Target::kHost)) {
    builder.setCPU(resolved == Target::kAvx2 ? "x86-64-v3" : "x86-64");
    builder.getFeatures() = llvm::SubtargetFeatures();
  }
  builder.setCodeGenOptLevel(llvm::CodeGenOptLevel::Default);
  // Fusing a multiply and an add only where the instructions ask for it (fast_math): eager does
  // not.
  builder.getOptions().AllowFPOpFusion = llvm::FPOpFusion::Standard;
  return builder;
}

std::unique_ptr<llvm::TargetMachine> make_target_machine(Target target) {
  return llvm::cantFail(target_machine_builder(target).createTargetMachine());
}

std::string target_description() {
  return llvm::sys::getHostCPUName().str() + ", " +
         std::to_string(8 * vector_unit(Target::kHost).bytes) + "-bit vectors";
}

}  // namespace scramjet::codegen::cpu
