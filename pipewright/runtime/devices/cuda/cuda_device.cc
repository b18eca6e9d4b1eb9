#include "pipewright/runtime/devices/cuda/cuda_device.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include <utility>

namespace pipewright {
namespace {

// As many as a step of a long pipeline has; the GPU has mostly passed them.
constexpr std::size_t kMaxPendingStamps = 4096;

class CudaMoment final : public Moment {
 public:
  CudaMoment(std::shared_ptr<CudaEvents> events, cudaStream_t stream)
      : events_(std::move(events)), event_(events_->recorded(stream)) {}

  bool has_passed() const override {
    const cudaError_t state = cudaEventQuery(event_.get());
    if (state == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());  // it is no error
      return false;
    }
    C10_CUDA_CHECK(state);
    return true;
  }
  void wait() const override {
    C10_CUDA_CHECK(cudaEventSynchronize(event_.get()));
  }
  cudaEvent_t event() const { return event_.get(); }

 private:
  const std::shared_ptr<CudaEvents> events_;
  const CudaEvent event_;
};

}  // namespace

CudaDevice::CudaDevice(std::string kind, c10::cuda::CUDAStream stream)
    : kind_(std::move(kind)),
      stream_(stream),
      memory_(StreamMemory::of(stream.stream())),
      events_(std::make_shared<CudaEvents>(false)),
      clock_events_(true) {}

void CudaDevice::serve_this_thread() {
  c10::cuda::set_device(stream_.device_index());
  c10::cuda::setCurrentCUDAStream(stream_);
}

// From the host through pinned memory, which the GPU reads by itself: LibTorch
// keeps it until it has been read.
at::Tensor CudaDevice::copy(const at::Tensor& tensor) {
  const c10::cuda::CUDAStreamGuard guard(stream_);
  if (tensor.is_cpu())
    return tensor.pin_memory().to(tensor.options().device(place()),
                                  /*non_blocking=*/true);
  at::Tensor here = at::empty_like(tensor, tensor.options().device(place()));
  here.copy_(tensor, /*non_blocking=*/true);
  return here;
}

MomentPointer CudaDevice::moment() {
  const c10::cuda::CUDAGuard guard(stream_.device_index());
  return std::make_shared<CudaMoment>(events_, stream_.stream());
}

void CudaDevice::wait_for(const MomentPointer& moment) {
  if (!moment) return;
  const auto* on_gpu = dynamic_cast<const CudaMoment*>(moment.get());
  if (!on_gpu) return moment->wait();
  C10_CUDA_CHECK(cudaStreamWaitEvent(stream_.stream(), on_gpu->event(), 0));
}

void CudaDevice::finish() {
  stream_.synchronize();
  write_stamps(0);
}

void CudaDevice::start_clock(Clock::time_point start) {
  const c10::cuda::CUDAGuard guard(stream_.device_index());
  origin_ = clock_events_.recorded(stream_.stream());
  C10_CUDA_CHECK(cudaEventSynchronize(origin_.get()));
  origin_time_ =
      Seconds(std::chrono::duration<double>(Clock::now() - start).count());
}

void CudaDevice::stamp(Seconds& time) {
  stamps_.push_back({clock_events_.recorded(stream_.stream()), &time});
  if (stamps_.size() > kMaxPendingStamps) write_stamps(kMaxPendingStamps / 2);
}

// Waits for those that the GPU has not passed.
void CudaDevice::write_stamps(std::size_t num_left) {
  for (; stamps_.size() > num_left; stamps_.pop_front()) {
    float milliseconds = 0;
    const cudaEvent_t event = stamps_.front().event.get();
    C10_CUDA_CHECK(cudaEventSynchronize(event));
    C10_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, origin_.get(), event));
    *stamps_.front().time = origin_time_ + Seconds(milliseconds / 1e3);
  }
}

}  // namespace pipewright
