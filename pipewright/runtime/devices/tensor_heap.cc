// Lists of free blocks by size; see tensor_heap.h.

#include "pipewright/runtime/devices/tensor_heap.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <new>
#include <string>
#include <utility>

namespace pipewright {
namespace {

constexpr std::size_t kAlignment = 64;  // what LibTorch's kernels expect
constexpr std::size_t kFineSizes = 64;
constexpr std::size_t kStepsPerDoubling = 8;
constexpr std::size_t kNumClasses = kFineSizes + 48 * kStepsPerDoubling;

struct SizeClass {
  std::size_t index = 0, bytes = 0;
};

// Multiples of 64 bytes up to 4 KB, then eight sizes per doubling.
SizeClass class_of(std::size_t bytes) {
  const std::size_t lines = (bytes + kAlignment - 1) / kAlignment;
  if (lines <= kFineSizes) return {lines, lines * kAlignment};
  const std::size_t below = std::bit_floor(lines - 1);
  const std::size_t step = below / kStepsPerDoubling;
  const std::size_t rounded = (lines + step - 1) / step * step;
  const std::size_t doublings = std::countr_zero(below / kFineSizes);
  return {kFineSizes + doublings * kStepsPerDoubling + (rounded - below) / step,
          rounded * kAlignment};
}

}  // namespace

// Stands before the bytes of each block.
struct alignas(kAlignment) HeapBlock {
  HeapBlocks* blocks = nullptr;  // none on a thread without a heap
  HeapBlocks* counted_in = nullptr;
  std::size_t size_class = 0;
  std::int64_t bytes = 0;
  HeapBlock* next = nullptr;  // of those that are free
};
static_assert(sizeof(HeapBlock) == kAlignment);

struct HeapBlocks {
  std::mutex mutex;
  std::array<HeapBlock*, kNumClasses> free = {};  // by size class
  std::int64_t held = 0, peak = 0, reserved = 0;
  std::int64_t num_used = 0;  // or counted here, and threads that are served
  bool is_orphaned = false;   // its heap is gone
};

namespace {

// ThreadSanitizer does not see how LibTorch counts references: a block that is
// used again would seem to be shared with those who had it before.
#ifdef __SANITIZE_THREAD__
constexpr bool kKeepsBlocks = false;
#else
constexpr bool kKeepsBlocks = true;
#endif

thread_local HeapBlocks* blocks_of_thread = nullptr;

void* reused_block(HeapBlocks& blocks, const SizeClass& size,
                   std::int64_t bytes) {
  const std::lock_guard lock(blocks.mutex);
  blocks.held += bytes;
  blocks.peak = std::max(blocks.peak, blocks.held);
  ++blocks.num_used;
  HeapBlock*& first = blocks.free[size.index];
  if (!first) {
    blocks.reserved += static_cast<std::int64_t>(size.bytes);
    return nullptr;
  }
  return std::exchange(first, first->next);
}

// Says how much was asked for, in LibTorch's words.
class NoMemory final : public std::bad_alloc {
 public:
  explicit NoMemory(std::size_t bytes)
      : text_("tried to allocate " + std::to_string(bytes) + " bytes") {}
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

void undo_use(HeapBlocks& blocks, const SizeClass& size, std::int64_t bytes) {
  const std::lock_guard lock(blocks.mutex);
  blocks.held -= bytes;
  blocks.reserved -= static_cast<std::int64_t>(size.bytes);
  --blocks.num_used;
}

void* allocated(std::size_t bytes) {
  const SizeClass size = class_of(bytes);
  if (size.index >= kNumClasses) throw NoMemory(bytes);
  const HeapBlock header{blocks_of_thread, blocks_of_thread, size.index,
                         static_cast<std::int64_t>(bytes), nullptr};
  void* block = nullptr;
  if (header.blocks) block = reused_block(*header.blocks, size, header.bytes);
  if (!block && ::posix_memalign(&block, kAlignment,
                                 sizeof(HeapBlock) + size.bytes) != 0) {
    if (header.blocks) undo_use(*header.blocks, size, header.bytes);
    throw NoMemory(bytes);
  }
  return new (block) HeapBlock(header) + 1;
}

// A block that was made elsewhere no longer counts here.
void stop_counting(HeapBlocks* blocks, std::int64_t bytes) {
  std::unique_lock lock(blocks->mutex);
  blocks->held -= bytes;
  const bool is_last = --blocks->num_used == 0 && blocks->is_orphaned;
  lock.unlock();
  if (is_last) delete blocks;
}

// A thread may go on when the heap that serves it is gone.
void serve(HeapBlocks* blocks) {
  struct AtEndOfThread {
    ~AtEndOfThread() { serve(nullptr); }
  };
  thread_local const AtEndOfThread at_end;
  if (blocks) {
    const std::lock_guard lock(blocks->mutex);
    ++blocks->num_used;
  }
  if (HeapBlocks* before = std::exchange(blocks_of_thread, blocks))
    stop_counting(before, 0);
}

void release(void* bytes) {
  if (!bytes) return;
  auto* header = static_cast<HeapBlock*>(bytes) - 1;
  HeapBlocks* blocks = header->blocks;
  if (!blocks) return std::free(header);
  const bool is_elsewhere = header->counted_in != blocks;
  if (is_elsewhere) stop_counting(header->counted_in, header->bytes);
  std::unique_lock lock(blocks->mutex);
  if (!is_elsewhere) blocks->held -= header->bytes;
  --blocks->num_used;
  if (kKeepsBlocks && !blocks->is_orphaned) {
    header->next = std::exchange(blocks->free[header->size_class], header);
    return;
  }
  blocks->reserved -= static_cast<std::int64_t>(class_of(header->bytes).bytes);
  const bool is_last = blocks->num_used == 0 && blocks->is_orphaned;
  lock.unlock();
  std::free(header);
  if (is_last) delete blocks;
}

class HeapAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* data = bytes > 0 ? allocated(bytes) : nullptr;
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t count) const override {
    default_copy_data(to, from, count);
  }
};

// For the whole process, since LibTorch has one allocator; threads without a
// heap are served as before.
void install() {
  static std::once_flag once;
  std::call_once(once, [] {
    // LibTorch keeps it to the end of the process.
    c10::SetCPUAllocator(new HeapAllocator, 1);
  });
}

}  // namespace

TensorHeap::TensorHeap() : blocks_(new HeapBlocks) { install(); }

TensorHeap::~TensorHeap() {
  std::unique_lock lock(blocks_->mutex);
  for (HeapBlock*& first : blocks_->free)
    while (first) std::free(std::exchange(first, first->next));
  blocks_->is_orphaned = true;
  const bool is_unused = blocks_->num_used == 0;
  lock.unlock();
  if (is_unused) delete blocks_;
}

void TensorHeap::serve_this_thread() { serve(blocks_); }

void TensorHeap::take_over(const at::Tensor& tensor) {
  const c10::DataPtr& data = tensor.storage().data_ptr();
  if (!data || data.get_deleter() != &release) return;
  HeapBlock* header = static_cast<HeapBlock*>(data.get_context()) - 1;
  if (!header->blocks || header->counted_in == blocks_) return;
  HeapBlocks* before = std::exchange(header->counted_in, blocks_);
  if (before != header->blocks) {
    stop_counting(before, header->bytes);
  } else {
    const std::lock_guard lock(before->mutex);
    before->held -= header->bytes;
  }
  const std::lock_guard lock(blocks_->mutex);
  blocks_->held += header->bytes;
  blocks_->peak = std::max(blocks_->peak, blocks_->held);
  if (blocks_ != header->blocks) ++blocks_->num_used;
}

Bytes TensorHeap::held() const {
  const std::lock_guard lock(blocks_->mutex);
  return Bytes(blocks_->held);
}
Bytes TensorHeap::peak() const {
  const std::lock_guard lock(blocks_->mutex);
  return Bytes(blocks_->peak);
}
Bytes TensorHeap::reserved() const {
  const std::lock_guard lock(blocks_->mutex);
  return Bytes(blocks_->reserved);
}
void TensorHeap::restart_peak() {
  const std::lock_guard lock(blocks_->mutex);
  blocks_->peak = blocks_->held;
}

}  // namespace pipewright
