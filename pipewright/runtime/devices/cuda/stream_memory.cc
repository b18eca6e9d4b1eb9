#include "pipewright/runtime/devices/cuda/stream_memory.h"

#include <c10/cuda/CUDACachingAllocator.h>

#include <algorithm>
#include <map>
#include <memory>

namespace pipewright {
namespace {

// Never destroyed: the allocator may call until the process ends.
struct CountedStreams {
  std::mutex mutex;
  std::map<void*, std::unique_ptr<StreamMemory>> memory;

  StreamMemory* find(void* stream) {
    const std::lock_guard lock(mutex);
    const auto found = memory.find(stream);
    return found == memory.end() ? nullptr : found->second.get();
  }
};

CountedStreams& counted_streams() {
  static auto* const kStreams = new CountedStreams;
  return *kStreams;
}

// Called while the allocator's own lock is held: calls nothing of LibTorch.
void count(const c10::CachingDeviceAllocator::TraceEntry& entry) {
  using Entry = c10::CachingDeviceAllocator::TraceEntry;
  StreamMemory* memory = counted_streams().find(entry.stream_);
  if (!memory) return;
  const auto bytes = static_cast<std::int64_t>(entry.size_);
  switch (entry.action_) {
    case Entry::ALLOC:
      return memory->allocated(bytes);
    case Entry::FREE_COMPLETED:
      return memory->allocated(-bytes);
    case Entry::SEGMENT_ALLOC:
    case Entry::SEGMENT_MAP:
      return memory->segment_allocated(bytes);
    case Entry::SEGMENT_FREE:
    case Entry::SEGMENT_UNMAP:
      return memory->segment_allocated(-bytes);
    default:
      return;
  }
}

}  // namespace

StreamMemory& StreamMemory::of(void* stream) {
  static std::once_flag once;
  std::call_once(once, [] {
    c10::cuda::CUDACachingAllocator::attachAllocatorTraceTracker(count);
  });
  CountedStreams& all = counted_streams();
  const std::lock_guard lock(all.mutex);
  auto& memory = all.memory[stream];
  if (!memory) memory = std::make_unique<StreamMemory>();
  return *memory;
}

void StreamMemory::allocated(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  held_ += bytes;
  peak_ = std::max(peak_, held_);
  recorded_peak_ = std::max(recorded_peak_, held_);
}
void StreamMemory::segment_allocated(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  reserved_ += bytes;
}
Bytes StreamMemory::held() const {
  const std::lock_guard lock(mutex_);
  return Bytes(held_);
}
Bytes StreamMemory::peak() const {
  const std::lock_guard lock(mutex_);
  return Bytes(peak_);
}
Bytes StreamMemory::reserved() const {
  const std::lock_guard lock(mutex_);
  return Bytes(reserved_);
}
void StreamMemory::restart_peak() {
  const std::lock_guard lock(mutex_);
  peak_ = std::max(held_, kept_peak_);
}
void StreamMemory::begin_recordings() {
  const std::lock_guard lock(mutex_);
  recorded_peak_ = held_;
}
void StreamMemory::keep_peak() {
  const std::lock_guard lock(mutex_);
  kept_peak_ = std::max(kept_peak_, recorded_peak_);
}
void StreamMemory::forget_kept_peak() {
  const std::lock_guard lock(mutex_);
  kept_peak_ = 0;
}

}  // namespace pipewright
