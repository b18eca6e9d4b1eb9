// A GPU, a share of one, or one of several streams of one: all are a stream
// that a worker's kernels run in, one after the other.

#pragma once

#include <c10/core/Allocator.h>
#include <c10/cuda/CUDAStream.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "pipewright/runtime/devices/cuda/cuda_events.h"
#include "pipewright/runtime/devices/cuda/stream_memory.h"
#include "pipewright/runtime/devices/worker_device.h"

namespace pipewright {

class CudaDevice final : public WorkerDevice {
 public:
  CudaDevice(std::string kind, c10::cuda::CUDAStream stream);
  ~CudaDevice() override;

  // In this process, now.
  static int count() { return count_; }

  const std::string& kind() const override { return kind_; }
  at::Device place() const override { return stream_.device(); }
  void serve_this_thread() override;

  bool computes_at_once() const override { return false; }
  bool reads_memory_of(const WorkerDevice& other) const override {
    return other.place() == place();
  }
  at::Tensor copy(const at::Tensor& tensor) override;
  void fill(at::Tensor& to, const at::Tensor& from) override;

  MomentPointer moment() override;
  void wait_for(const MomentPointer& moment) override;
  void begin_wait() override { moment(); }
  void end_wait() override;
  void finish() override;

  void start_clock(Clock::time_point start) override;
  void stamp(Seconds& time) override;

  bool records() const override { return true; }
  std::unique_ptr<Recording> record(const std::function<void()>& work) override;
  void begin_recordings() override;
  void end_recordings() override;
  std::unique_ptr<JointRecording> joint_recording() override;

  WorkLog* log() override { return &log_; }
  void suffer(DeviceFault fault) override;

  // Messages are copied, so that each side counts its own.
  void take_over(const at::Tensor&) override {}
  Bytes held() const override { return memory_.held(); }
  Bytes peak() const override { return memory_.peak(); }
  Bytes reserved() const override { return memory_.reserved(); }
  void restart_peak() override { memory_.restart_peak(); }

 private:
  // The events belong to clock_events_ or to a recording.
  struct Stamp {
    MomentPointer own;
    cudaEvent_t event = nullptr;
    Seconds* time = nullptr;
  };
  class CudaRecording;
  class CudaJointRecording;

  CudaEvent recorded(CudaEvents& events);
  void write_stamps(std::size_t num_left);

  inline static std::atomic<int> count_ = 0, num_made_ = 0;

  const int number_;  // in this process, now and later
  const std::string kind_;
  const c10::cuda::CUDAStream stream_;
  StreamMemory& memory_;
  const std::shared_ptr<CudaEvents> events_;  // moments may outlive the device
  const std::shared_ptr<CudaEvents> clock_events_;  // the log has some
  WorkLog log_;
  CudaEvent origin_;
  Seconds origin_time_;
  std::deque<Stamp> stamps_;  // to be written, oldest first
  std::int64_t num_moments_ = 0;
  // The last moment of each other device, by number, that this one's stream
  // waits for: the driver need not be told of earlier ones.
  std::map<int, std::int64_t> waited_for_;
  CudaRecording* in_progress_ = nullptr;
  std::optional<c10::MempoolId_t> pool_;  // of recordings that share one
};

}  // namespace pipewright
