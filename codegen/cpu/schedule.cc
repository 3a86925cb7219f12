#include "codegen/cpu/schedule.h"

#include <algorithm>

namespace scramjet::codegen::cpu {
namespace {

// Enough to hide a multiply's latency on every x86 of the last ten years (4 cycles, 2 a cycle).
constexpr int kMostInFlight = 8;
// Of one iteration: longer blocks take LLVM too long for what they gain.
constexpr int kMostInstructions = 1024;
constexpr int kMostElementAccesses = 64;

int bytes_of(at::ScalarType type) { return static_cast<int>(c10::elementSize(type)); }

// The widest type fills one register; narrower types fill a part of one.
int choose_lanes(const ScalarProgram& program, VectorUnit unit) {
  int widest = 1;
  for (const Instruction& in : program.instructions) widest = std::max(widest, bytes_of(in.type));
  return unit.bytes / widest;
}

struct Pressure {
  int shared =
      0;  // registers that all vectors in flight have in common: constants and broadcast inputs
  int per_vector = 1;  // registers that each vector needs at the worst point
};

// The scheduler keeps about the program's own order, so values alive there are alive in the machine
// code.
Pressure measure(const CompileSpec& spec) {
  const ScalarProgram& program = spec.program;
  const size_t count = program.instructions.size();
  std::vector<size_t> last(count, 0);
  for (size_t k = 0; k < count; ++k) {
    const Instruction& in = program.instructions[k];
    for (Value operand : {in.a, in.b, in.c}) {
      if (operand >= 0) last[operand] = k;
    }
  }
  for (const Store& store : program.outputs) last[store.value] = count;

  Pressure pressure;
  int live = 0;
  std::vector<int> ends(count + 1, 0);
  for (size_t k = 0; k < count; ++k) {
    const Instruction& in = program.instructions[k];
    const bool shared = in.opcode == Opcode::kConstant ||
                        (in.opcode == Opcode::kLoad &&
                         spec.access[program.outputs.size() + in.index] == Access::kBroadcast);
    live -= ends[k];  // a result may take the register of an operand that ends here
    if (shared) {
      ++pressure.shared;
    } else if (last[k] > k) {
      ++live;
      ++ends[last[k]];
    }
    pressure.per_vector = std::max(pressure.per_vector, live);
  }
  return pressure;
}

}  // namespace

Schedule choose_schedule(const CompileSpec& spec, VectorUnit unit) {
  const ScalarProgram& program = spec.program;
  const int lanes = choose_lanes(program, unit);
  for (const Instruction& in : program.instructions) {
    // A call clobbers every vector register: several vectors in flight would only spill.
    if (in.opcode == Opcode::kCall || in.opcode == Opcode::kRem) return {lanes, 1};
  }
  const Pressure pressure = measure(spec);
  // Constants beyond half of the registers are read from memory where they are used, at no cost.
  const int free = unit.registers - std::min(pressure.shared, unit.registers / 2);
  const int by_registers = free / pressure.per_vector;
  const int by_length =
      kMostInstructions / std::max<int>(1, static_cast<int>(program.instructions.size()));
  const auto strided = std::count(spec.access.begin(), spec.access.end(), Access::kStrided);
  const int by_accesses =
      kMostElementAccesses / std::max<int>(1, static_cast<int>(strided) * lanes);
  const int by_strides = strided > 0 ? by_accesses : kMostInFlight;
  return {lanes, std::clamp(std::min({by_registers, by_length, by_strides}), 1, kMostInFlight)};
}

}  // namespace scramjet::codegen::cpu
