#include "amp/state_dict_file.h"

#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace scramjet::amp {
namespace {

using torch::jit::PickleOpCode;

constexpr const char* kRecord = "data.pkl";

/// The bytes between this opcode and the next one; none for opcodes that no dict of numbers and
/// strings has, and at the end. Python's pickletools.py lists them.
std::optional<size_t> operand_size(std::string_view pickle) {
  if (pickle.empty()) return std::nullopt;
  const std::string_view operand = pickle.substr(1);
  size_t size = 0;
  switch (static_cast<PickleOpCode>(static_cast<uint8_t>(pickle.front()))) {
    case PickleOpCode::EMPTY_DICT:
    case PickleOpCode::MARK:
    case PickleOpCode::SETITEM:
    case PickleOpCode::SETITEMS:
    case PickleOpCode::NEWTRUE:
    case PickleOpCode::NEWFALSE:
    case PickleOpCode::NONE:
      break;
    case PickleOpCode::PROTO:
    case PickleOpCode::BINPUT:
    case PickleOpCode::BINGET:
    case PickleOpCode::BININT1:
      size = 1;
      break;
    case PickleOpCode::BININT2:
      size = 2;
      break;
    case PickleOpCode::BININT:
    case PickleOpCode::LONG_BINPUT:
    case PickleOpCode::LONG_BINGET:
      size = 4;
      break;
    case PickleOpCode::BINFLOAT:
      size = 8;
      break;
    case PickleOpCode::LONG1:
      if (!operand.empty()) size = 1 + static_cast<uint8_t>(operand.front());
      break;
    case PickleOpCode::BINUNICODE: {
      uint32_t length = 0;  // little endian in the file, as on every machine that torch runs on
      if (operand.size() >= sizeof length) std::memcpy(&length, operand.data(), sizeof length);
      size = sizeof length + length;
      break;
    }
    default:
      return std::nullopt;
  }
  return size <= operand.size() ? std::optional(size) : std::nullopt;
}

/// Extends integers of fewer bytes to the 8 that torch's Unpickler takes. From the first opcode it
/// does not know, the rest stays as it is, for the Unpickler to judge.
std::string with_long_integers(std::string_view pickle) {
  constexpr uint8_t kBytes = sizeof(int64_t);
  std::string result;
  while (const auto size = operand_size(pickle)) {
    result.append(pickle.substr(0, 1 + *size));
    if (static_cast<PickleOpCode>(static_cast<uint8_t>(pickle.front())) == PickleOpCode::LONG1) {
      const size_t bytes = *size - 1;
      if (0 < bytes && bytes < kBytes) {
        const bool negative = (static_cast<uint8_t>(result.back()) & 0x80U) != 0;
        result[result.size() - bytes - 1] = kBytes;
        result.append(kBytes - bytes, negative ? '\xff' : '\0');
      }
    }
    pickle.remove_prefix(1 + *size);
  }
  return result.append(pickle);
}

}  // namespace

void write_state_dict_file(const c10::impl::GenericDict& state, const std::string& path) {
  std::string data;
  torch::jit::Pickler pickler([&](const char* bytes, size_t size) { data.append(bytes, size); },
                              /*tensor_table=*/nullptr, /*type_renamer=*/nullptr,
                              /*memoized_class_types=*/nullptr, /*get_tensor_id=*/nullptr,
                              /*tag_aggregates=*/false);
  pickler.protocol();
  pickler.pushIValue(state);
  pickler.stop();
  caffe2::serialize::PyTorchStreamWriter writer(path);
  writer.writeRecord(kRecord, data.data(), data.size());
  writer.writeEndOfFile();
}

c10::IValue read_state_dict_file(const std::string& path) {
  caffe2::serialize::PyTorchStreamReader reader(path);
  const auto [data, size] = reader.getRecord(kRecord);
  const std::string pickle = with_long_integers({static_cast<const char*>(data.get()), size});
  return torch::jit::unpickle(pickle.data(), pickle.size());
}

}  // namespace scramjet::amp
