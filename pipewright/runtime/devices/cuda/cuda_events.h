// CUDA events, kept for the next use: making one takes longer than recording
// it.

#pragma once

#include <cuda_runtime_api.h>

#include <mutex>
#include <utility>
#include <vector>

namespace pipewright {

class CudaEvents;

// One event of a pool, which it goes back to.
class CudaEvent {
 public:
  CudaEvent() = default;
  CudaEvent(CudaEvents* pool, cudaEvent_t event) : pool_(pool), event_(event) {}
  CudaEvent(CudaEvent&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)),
        event_(std::exchange(other.event_, nullptr)) {}
  CudaEvent& operator=(CudaEvent&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(event_, other.event_);
    return *this;
  }
  ~CudaEvent();

  cudaEvent_t get() const { return event_; }

 private:
  CudaEvents* pool_ = nullptr;
  cudaEvent_t event_ = nullptr;
};

// Throws what a kernel before it has failed with.
bool has_passed(const CudaEvent& event);

class CudaEvents {
 public:
  // Of events that tell times or only order.
  explicit CudaEvents(bool has_times);
  ~CudaEvents();
  CudaEvents(const CudaEvents&) = delete;
  CudaEvents& operator=(const CudaEvents&) = delete;

  // Not recorded yet.
  CudaEvent made();

 private:
  friend class CudaEvent;
  void put_back(cudaEvent_t event);

  const unsigned flags_;
  std::mutex mutex_;
  std::vector<cudaEvent_t> unused_;
};

}  // namespace pipewright
