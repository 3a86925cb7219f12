#pragma once

// A model's inputs from the command line.

#include <ATen/core/ivalue.h>

#include <string>
#include <vector>

namespace scramjet {

// One input from its text:
//   1x3x224x224:float   a tensor of that shape, uniform in [0, 1) (integers: in [0, 100)); dtypes:
//   float, double,
//                       half, bfloat16, uint8, int8, int16, int32, int64, bool; "scalar:float" has
//                       no dimensions
//   int=16000, float=0.5, bool=true, none    a number, or None
//   file.npy            a NumPy array
//   file.wav            samples as float in [-1, 1]: [samples] for one channel, else [channels,
//   samples] file.pt             what torch.save wrote: a tensor, a tuple or list of them, ...
// Throws c10::ValueError that names the text and what was expected.
c10::IValue read_input(const std::string& text);

// "1x3x224x224:float" of a tensor, for messages.
std::string describe_value(const c10::IValue& value);

}  // namespace scramjet
