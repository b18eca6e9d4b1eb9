#include "pipewright/runtime/devices/cuda/cuda_events.h"

#include <c10/cuda/CUDAException.h>

namespace pipewright {

CudaEvent::~CudaEvent() {
  if (pool_) pool_->put_back(event_);
}

bool has_passed(const CudaEvent& event) {
  const cudaError_t state = cudaEventQuery(event.get());
  if (state == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());  // LibTorch must not find it
    return false;
  }
  C10_CUDA_CHECK(state);
  return true;
}

CudaEvents::CudaEvents(bool has_times)
    : flags_(has_times ? cudaEventDefault : cudaEventDisableTiming) {}

CudaEvents::~CudaEvents() {
  for (const cudaEvent_t event : unused_)
    static_cast<void>(cudaEventDestroy(event));
}

CudaEvent CudaEvents::made() {
  cudaEvent_t event = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (!unused_.empty()) {
      event = unused_.back();
      unused_.pop_back();
    }
  }
  if (!event) C10_CUDA_CHECK(cudaEventCreateWithFlags(&event, flags_));
  return CudaEvent(this, event);
}

void CudaEvents::put_back(cudaEvent_t event) {
  const std::lock_guard lock(mutex_);
  unused_.push_back(event);
}

}  // namespace pipewright
