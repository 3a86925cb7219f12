#include "runtime/output_memory.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/InferenceMode.h>
#include <sys/mman.h>

#include <map>
#include <mutex>
#include <unordered_map>

namespace scramjet::runtime {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kSmallest = kHugePage;          // smaller outputs come from ATen's allocator
constexpr size_t kMostCached = size_t{1} << 30;  // kept for reuse, over all sizes

size_t block_size(size_t bytes) { return (bytes + kHugePage - 1) / kHugePage * kHugePage; }

// Blocks of whole huge pages, cached by exact size. The allocator is never destroyed: tensors may
// outlive statics.
class BlockAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* block = take(block_size(bytes));
    return {block, block, &release, c10::Device(c10::DeviceType::CPU)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &release; }

  void copy_data(void* destination, const void* source, size_t bytes) const override {
    default_copy_data(destination, source, bytes);
  }

  int64_t cached_bytes() {
    const std::lock_guard lock(mutex_);
    return static_cast<int64_t>(cached_);
  }

  void empty_cache() {
    std::multimap<size_t, void*> free;
    {
      const std::lock_guard lock(mutex_);
      free.swap(free_);
      cached_ = 0;
    }
    for (const auto& [size, block] : free) munmap(block, size);
  }

 private:
  void* take(size_t size) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = free_.find(size); found != free_.end()) {
        void* block = found->second;
        free_.erase(found);
        cached_ -= size;
        sizes_[block] = size;
        return block;
      }
    }
    void* block = map(size);
    if (block == nullptr) {
      empty_cache();
      block = map(size);
    }
    TORCH_CHECK_WITH(OutOfMemoryError, block != nullptr, "scramjet: cannot allocate ", size,
                     " bytes for an output");
    const std::lock_guard lock(mutex_);
    sizes_[block] = size;
    return block;
  }

  // mmap with the start on a huge page's boundary.
  static void* map(size_t size) {
    char* start = static_cast<char*>(mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (start == MAP_FAILED) return nullptr;
    const size_t skip = (kHugePage - reinterpret_cast<uintptr_t>(start) % kHugePage) % kHugePage;
    if (skip != 0) munmap(start, skip);
    munmap(start + skip + size, kHugePage - skip);
    madvise(start + skip, size, MADV_HUGEPAGE);  // advice: where it is refused, small pages serve
    return start + skip;
  }

  void put(void* block) {
    size_t size = 0;
    {
      const std::lock_guard lock(mutex_);
      const auto known = sizes_.find(block);
      TORCH_INTERNAL_ASSERT(known != sizes_.end());
      size = known->second;
      sizes_.erase(known);
      if (cached_ + size <= kMostCached) {
        free_.emplace(size, block);
        cached_ += size;
        return;
      }
    }
    munmap(block, size);
  }

  static void release(void* block);

  std::mutex mutex_;
  std::multimap<size_t, void*> free_;
  std::unordered_map<void*, size_t> sizes_;  // of the blocks in use
  size_t cached_ = 0;
};

BlockAllocator& block_allocator() {
  static auto* allocator = new BlockAllocator;
  return *allocator;
}

void BlockAllocator::release(void* block) { block_allocator().put(block); }

}  // namespace

bool is_kept(size_t bytes) { return bytes >= kSmallest; }

at::Tensor allocate_output(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype) {
  constexpr c10::DispatchKeySet kCpu(c10::DispatchKey::CPU);
  const size_t bytes = at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(dtype));
  c10::Allocator* allocator = is_kept(bytes) ? &block_allocator() : c10::GetCPUAllocator();
  return at::detail::empty_strided_generic(sizes, strides, allocator, kCpu, dtype);
}

bool is_reusable(const at::Tensor& tensor) {
  if (tensor.use_count() != 1 || tensor.weak_use_count() != 1 ||
      tensor.is_inference() != c10::InferenceMode::is_enabled())
    return false;
  // Not what autograd knows of, nor a part of a larger storage: the output would carry that along.
  if (tensor.unsafeGetTensorImpl()->autograd_meta() != nullptr) return false;
  const c10::Storage& storage = tensor.storage();
  if (tensor.storage_offset() != 0 || storage.nbytes() != tensor.nbytes()) return false;
  if (storage.use_count() != 1) return false;
  const c10::DeleterFnPtr deleter = storage.data_ptr().get_deleter();
  return deleter != nullptr && (deleter == c10::GetCPUAllocator()->raw_deleter() ||
                                deleter == block_allocator().raw_deleter());
}

int64_t cached_output_bytes() { return block_allocator().cached_bytes(); }
void empty_output_cache() { block_allocator().empty_cache(); }

}  // namespace scramjet::runtime
