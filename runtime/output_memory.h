#pragma once

// Memory for the outputs of kernels, generated and hand-written.
//
// Fresh pages cost more than computing what goes into them (clone of 80 MB: 35 ms, 6 ms into mapped
// memory), so large outputs come from blocks that are backed by huge pages and kept for the next
// output once freed.

#include <ATen/core/Tensor.h>

namespace scramjet::runtime {

// Does an output of so many bytes come from such a block?
bool is_kept(size_t bytes);

// A CPU tensor with these sizes and strides, uninitialised.
at::Tensor allocate_output(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype);

// May the kernel write its output over this input? Only if nobody else can see the memory: we hold
// the last reference, and ATen's allocator or ours owns it (not from_blob, NumPy, a mapped file or
// shared memory).
bool is_reusable(const at::Tensor& tensor);

// Bytes in blocks that are kept for reuse; empty_output_cache() gives them back to the system.
int64_t cached_output_bytes();
void empty_output_cache();

}  // namespace scramjet::runtime
