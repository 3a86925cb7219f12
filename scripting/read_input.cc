#include "scripting/read_input.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <sndfile.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <charconv>
#include <fstream>
#include <map>
#include <xtensor/xarray.hpp>
#include <xtensor/xnpy.hpp>

namespace scramjet {
namespace {

const std::map<std::string, at::ScalarType>& dtypes() {
  static const std::map<std::string, at::ScalarType> names = {
      {"float", at::kFloat},       {"double", at::kDouble}, {"half", at::kHalf},
      {"bfloat16", at::kBFloat16}, {"uint8", at::kByte},    {"int8", at::kChar},
      {"int16", at::kShort},       {"int32", at::kInt},     {"int64", at::kLong},
      {"bool", at::kBool}};
  return names;
}

[[noreturn]] void fail(const std::string& text, const std::string& reason) {
  TORCH_CHECK_VALUE(false, "--input '", text, "': ", reason);
}

template <class T>
T parse_number(const std::string& text, const std::string& digits) {
  T value{};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size())
    fail(text, "'" + digits + "' is not a number");
  return value;
}

at::Tensor random_tensor(const std::string& text, const std::string& shape,
                         const std::string& dtype_name) {
  const auto dtype = dtypes().find(dtype_name);
  if (dtype == dtypes().end()) {
    std::string names;
    for (const auto& [name, type] : dtypes()) names += (names.empty() ? "" : ", ") + name;
    fail(text, "'" + dtype_name + "' is no dtype; expected one of " + names);
  }
  std::vector<int64_t> sizes;
  if (shape != "scalar") {
    for (size_t start = 0; start <= shape.size();) {
      const size_t end = std::min(shape.find('x', start), shape.size());
      const auto size = parse_number<int64_t>(text, shape.substr(start, end - start));
      if (size < 0) fail(text, "a size is negative");
      sizes.push_back(size);
      start = end + 1;
    }
  }
  if (at::isFloatingType(dtype->second)) return at::rand(sizes).to(dtype->second);
  return at::randint(0, 100, sizes, at::kLong).to(dtype->second);
}

template <class T>
bool load_npy_as(const std::string& path, at::ScalarType dtype, at::Tensor* tensor) {
  try {
    const auto array = xt::load_npy<T, xt::layout_type::row_major>(path);
    const std::vector<int64_t> sizes(array.shape().begin(), array.shape().end());
    *tensor = at::from_blob(const_cast<T*>(array.data()), sizes, at::TensorOptions(dtype)).clone();
    return true;
  } catch (const std::runtime_error&) {  // another dtype
    return false;
  }
}

at::Tensor load_npy(const std::string& path) {
  at::Tensor tensor;
  const bool loaded = load_npy_as<float>(path, at::kFloat, &tensor) ||
                      load_npy_as<double>(path, at::kDouble, &tensor) ||
                      load_npy_as<int64_t>(path, at::kLong, &tensor) ||
                      load_npy_as<int32_t>(path, at::kInt, &tensor) ||
                      load_npy_as<int16_t>(path, at::kShort, &tensor) ||
                      load_npy_as<int8_t>(path, at::kChar, &tensor) ||
                      load_npy_as<uint8_t>(path, at::kByte, &tensor) ||
                      load_npy_as<bool>(path, at::kBool, &tensor);
  if (!loaded) fail(path, "not a .npy file of float, double, an integer or bool");
  return tensor;
}

at::Tensor load_wav(const std::string& path) {
  SF_INFO info{};
  std::unique_ptr<SNDFILE, decltype(&sf_close)> file(sf_open(path.c_str(), SFM_READ, &info),
                                                     &sf_close);
  if (!file) fail(path, sf_strerror(nullptr));
  at::Tensor samples = at::rand({info.frames, info.channels});
  const sf_count_t read =
      sf_readf_float(file.get(), samples.mutable_data_ptr<float>(), info.frames);
  if (read != info.frames) fail(path, "the file ends early");
  return info.channels == 1 ? samples.select(1, 0).contiguous() : samples.t().contiguous();
}

c10::IValue load_pt(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)),
                                std::istreambuf_iterator<char>());
  return torch::jit::pickle_load(bytes);
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

}  // namespace

c10::IValue read_input(const std::string& text) {
  if (text == "none") return {};
  const size_t equals = text.find('=');
  if (equals != std::string::npos) {
    const std::string kind = text.substr(0, equals), value = text.substr(equals + 1);
    if (kind == "int") return parse_number<int64_t>(text, value);
    if (kind == "float") return parse_number<double>(text, value);
    if (kind == "bool" && (value == "true" || value == "false")) return value == "true";
    fail(text, "expected int=N, float=X, bool=true or bool=false");
  }
  for (const char* extension : {".npy", ".wav", ".pt"}) {
    if (!ends_with(text, extension)) continue;
    if (!std::ifstream(text)) fail(text, "cannot open the file");
    if (extension == std::string(".npy")) return load_npy(text);
    if (extension == std::string(".wav")) return load_wav(text);
    return load_pt(text);
  }
  const size_t colon = text.find(':');
  if (colon == std::string::npos)
    fail(text,
         "expected a shape such as 1x3x224x224:float, int=N, float=X, bool=B, none, or a .npy, "
         ".wav or .pt file");
  return random_tensor(text, text.substr(0, colon), text.substr(colon + 1));
}

std::string describe_value(const c10::IValue& value) {
  if (!value.isTensor())
    return value.isGenericDict() || value.isObject() ? value.tagKind() : c10::str(value);
  const at::Tensor& tensor = value.toTensor();
  std::string text;
  for (int64_t size : tensor.sizes()) text += (text.empty() ? "" : "x") + std::to_string(size);
  std::string dtype = c10::toString(tensor.scalar_type());
  for (const auto& [name, type] : dtypes()) {
    if (type == tensor.scalar_type()) dtype = name;
  }
  return (text.empty() ? "scalar" : text) + ':' + dtype;
}

}  // namespace scramjet
