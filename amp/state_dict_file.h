#pragma once

#include <ATen/core/Dict.h>
#include <ATen/core/ivalue.h>

#include <string>

namespace scramjet::amp {

/// Writes the file that Python's `torch.save(state, path)` writes for a dict of numbers and
/// strings; `torch.load(path)` reads it under its default, weights_only=True.
///
/// Not torch::pickle_save: that wraps dicts in a type tag which weights_only=True refuses.
void write_state_dict_file(const c10::impl::GenericDict& state, const std::string& path);

/// Reads what Python's `torch.save(state, path)` or the above wrote.
///
/// Not torch::pickle_load: that knows Python's ints up to 32 bits and those of exactly 8 bytes.
c10::IValue read_state_dict_file(const std::string& path);

}  // namespace scramjet::amp
