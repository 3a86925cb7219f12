// Saving and loading a GradScaler.
#include <ATen/core/jit_type.h>
#include <c10/util/Exception.h>
#include <torch/serialize/archive.h>

#include <fstream>

#include "amp/grad_scaler.h"
#include "amp/state_dict_file.h"

namespace scramjet::amp {
namespace {

constexpr const char* kScale = "scale";
constexpr const char* kGrowthFactor = "growth_factor";
constexpr const char* kBackoffFactor = "backoff_factor";
constexpr const char* kGrowthInterval = "growth_interval";
constexpr const char* kGrowthTracker = "_growth_tracker";
constexpr const char* kEntries[] = {kScale, kGrowthFactor, kBackoffFactor, kGrowthInterval,
                                    kGrowthTracker};

c10::IValue entry(const c10::impl::GenericDict& state, const char* name) {
  const auto found = state.find(c10::IValue(name));
  TORCH_CHECK(found != state.end(), "GradScaler.load_state_dict(): the state dict has no entry '",
              name, "'; it should be what GradScaler.state_dict() returned");
  return found->value();
}

/// Python keeps an int where the user gave an int: GradScaler(init_scale=1024).
double number(const c10::impl::GenericDict& state, const char* name) {
  const c10::IValue value = entry(state, name);
  TORCH_CHECK_TYPE(value.isDouble() || value.isInt(), "GradScaler.load_state_dict(): entry '", name,
                   "' should be a number, got ", value.tagKind());
  return value.isInt() ? static_cast<double>(value.toInt()) : value.toDouble();
}

int64_t integer(const c10::impl::GenericDict& state, const char* name) {
  const c10::IValue value = entry(state, name);
  TORCH_CHECK_TYPE(value.isInt(), "GradScaler.load_state_dict(): entry '", name,
                   "' should be an int, got ", value.tagKind());
  return value.toInt();
}

c10::impl::GenericDict empty_state() {
  return c10::impl::GenericDict(c10::StringType::get(), c10::AnyType::get());
}

}  // namespace

c10::impl::GenericDict GradScaler::state_dict() const {
  c10::impl::GenericDict state = empty_state();
  if (!is_enabled()) return state;
  state.insert(kScale, get_scale());
  state.insert(kGrowthFactor, get_growth_factor());
  state.insert(kBackoffFactor, get_backoff_factor());
  state.insert(kGrowthInterval, get_growth_interval());
  state.insert(kGrowthTracker, get_growth_tracker());
  return state;
}

void GradScaler::load_state_dict(const c10::impl::GenericDict& state) {
  if (!is_enabled()) return;
  TORCH_CHECK(!state.empty(),
              "GradScaler.load_state_dict(): The source state dict is empty, possibly because it "
              "was saved from a disabled instance of GradScaler. Load it into a disabled one, or "
              "start without it");
  const double scale = number(state, kScale);
  const double growth_factor = number(state, kGrowthFactor);
  const double backoff_factor = number(state, kBackoffFactor);
  const int64_t growth_interval = integer(state, kGrowthInterval);
  const int64_t growth_tracker = integer(state, kGrowthTracker);
  options_.init_scale(scale)
      .growth_factor(growth_factor)
      .backoff_factor(backoff_factor)
      .growth_interval(growth_interval);
  init_growth_tracker_ = growth_tracker;
  if (!scale_.defined()) return;
  scale_.fill_(scale);
  growth_tracker_.fill_(growth_tracker);
}

void GradScaler::save_state_dict(const std::string& path) const {
  write_state_dict_file(state_dict(), path);
}

void GradScaler::load_state_dict_file(const std::string& path) {
  TORCH_CHECK(std::ifstream(path).good(), "GradScaler.load_state_dict_file(): cannot open ", path);
  const c10::IValue state = read_state_dict_file(path);
  TORCH_CHECK_TYPE(state.isGenericDict(), "GradScaler.load_state_dict_file(): ", path,
                   " should hold the dict that state_dict() returned, got ", state.tagKind());
  load_state_dict(state.toGenericDict());
}

void GradScaler::save(torch::serialize::OutputArchive& archive) const {
  for (const auto& item : state_dict()) archive.write(item.key().toStringRef(), item.value());
}

void GradScaler::load(torch::serialize::InputArchive& archive) {
  c10::impl::GenericDict state = empty_state();
  for (const char* name : kEntries) {
    c10::IValue value;
    if (archive.try_read(name, value)) state.insert(name, value);
  }
  load_state_dict(state);
}

torch::serialize::OutputArchive& operator<<(torch::serialize::OutputArchive& archive,
                                            const GradScaler& scaler) {
  scaler.save(archive);
  return archive;
}

torch::serialize::InputArchive& operator>>(torch::serialize::InputArchive& archive,
                                           GradScaler& scaler) {
  scaler.load(archive);
  return archive;
}

}  // namespace scramjet::amp
