// A device for tests, in memory of the host, that records as a GPU does: while
// it records, operators make tensors of the right sizes and change none; a
// replay calls them again on the same memory. Kernels of our own, which no
// dispatcher sees, cannot be recorded. As with LibTorch's allocator, memory
// that recordings share is gone with the last of them, and cannot be used
// again.

#pragma once

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "pipewright/runtime/devices/cpu_device.h"

namespace pipewright::testing {

struct LoggedCalls;

class LoggingDevice final : public WorkerDevice {
 public:
  // Recordings fail from this one on, counted from 0.
  explicit LoggingDevice(int first_failure = 1 << 30)
      : first_failure_(first_failure), shared_(std::make_shared<int>(0)) {}

  int num_recordings() const { return num_recordings_; }
  int num_replays() const { return num_replays_; }
  int num_joint_replays() const { return num_joint_replays_; }
  int num_moments() const { return num_moments_; }

  const std::string& kind() const override { return kind_; }
  at::Device place() const override { return at::kCPU; }
  void serve_this_thread() override { memory_.serve_this_thread(); }
  bool computes_at_once() const override { return false; }
  bool reads_memory_of(const WorkerDevice&) const override { return true; }
  at::Tensor copy(const at::Tensor& tensor) override {
    return host_copy(tensor);
  }
  MomentPointer moment() override {
    ++num_moments_;
    return nullptr;
  }
  void wait_for(const MomentPointer&) override {}
  void finish() override {}
  void start_clock(Clock::time_point start) override {
    memory_.start_clock(start);
  }
  void stamp(Seconds& time) override { memory_.stamp(time); }

  bool records() const override { return true; }
  std::unique_ptr<Recording> record(const std::function<void()>& work) override;
  void begin_recordings() override { shares_ = is_shared_memory_new_ = true; }
  void end_recordings() override { shares_ = false; }
  // Replays what it joins in an order of chance, as far as it may.
  std::unique_ptr<JointRecording> joint_recording() override;

  void take_over(const at::Tensor&) override {}
  Bytes held() const override { return memory_.held(); }
  Bytes peak() const override { return memory_.peak(); }
  Bytes reserved() const override { return memory_.reserved(); }
  void restart_peak() override { memory_.restart_peak(); }

 private:
  class Replayed;
  class Joined;

  const std::string kind_ = "logging";
  const int first_failure_;
  CpuDevice memory_;
  int num_recordings_ = 0, num_replays_ = 0, num_joint_replays_ = 0;
  int num_moments_ = 0;
  bool shares_ = false, is_shared_memory_new_ = false;
  std::shared_ptr<int> shared_;  // recordings that share memory now
};

}  // namespace pipewright::testing
