#include <cstdint>
#include <string>

#include "tests/cuda_host/grid_execution.h"

// cuda_host_library compiles kernels with -fsanitize=alignment,bounds,null and no recovery: a GPU
// traps on a misaligned or null pointer, as x86 does not. Instead of libubsan, these end the grid.
namespace scramjet::cuda_host {
namespace {

struct SourceLocation {
  const char* file;
  uint32_t line;
  uint32_t column;
};

struct TypeDescriptor {
  uint16_t kind;
  uint16_t info;
  char name[1];
};

struct TypeMismatchData {
  SourceLocation place;
  const TypeDescriptor* type;
  unsigned char log_alignment;
  unsigned char access;
};

struct OutOfBoundsData {
  SourceLocation place;
  const TypeDescriptor* array;
  const TypeDescriptor* index;
};

std::string text(const SourceLocation& place) {
  return std::string(place.file) + ':' + std::to_string(place.line);
}

std::string message(const TypeMismatchData& data, uintptr_t pointer) {
  const char* const what = pointer == 0 ? "a null pointer to " : "a misaligned pointer to ";
  return what + (data.type->name + (" is used at " + text(data.place)));
}

std::string message(const OutOfBoundsData& data, uintptr_t index) {
  return "index " + std::to_string(static_cast<intptr_t>(index)) + " lies outside " +
         data.array->name + " at " + text(data.place);
}

}  // namespace
}  // namespace scramjet::cuda_host

extern "C" {

void __ubsan_handle_type_mismatch_v1_abort(scramjet::cuda_host::TypeMismatchData* data,
                                           uintptr_t pointer) {
  scramjet::cuda_host::give_up(message(*data, pointer));
}

void __ubsan_handle_out_of_bounds_abort(scramjet::cuda_host::OutOfBoundsData* data,
                                        uintptr_t index) {
  scramjet::cuda_host::give_up(message(*data, index));
}

}  // extern "C"
