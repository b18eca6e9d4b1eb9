// A device for tests whose memory the host cannot read: its tensors are of
// LibTorch's type PrivateUse1, and every bit of them is inverted. Kernels run
// on copies in memory of the host. A copy into pinned memory that nobody waits
// for is made late: when an event after it is asked for the second time. So
// code that takes such tensors for its own, or does not wait, gets other
// numbers.

#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "pipewright/runtime/devices/cpu_device.h"

namespace pipewright::testing {

class RemoteDevice final : public WorkerDevice {
 public:
  RemoteDevice();

  const std::string& kind() const override { return kind_; }
  at::Device place() const override { return {at::kPrivateUse1, 0}; }
  void serve_this_thread() override;
  bool computes_at_once() const override { return false; }
  bool reads_memory_of(const WorkerDevice& other) const override {
    return other.place() == place();
  }
  at::Tensor copy(const at::Tensor& tensor) override {
    return tensor.to(place(), /*non_blocking=*/true, /*copy=*/true);
  }

  MomentPointer moment() override { return nullptr; }
  void wait_for(const MomentPointer& moment) override {
    if (moment) moment->wait();
  }
  void finish() override {}
  void start_clock(Clock::time_point start) override {
    memory_.start_clock(start);
  }
  void stamp(Seconds& time) override { memory_.stamp(time); }

  void take_over(const at::Tensor&) override {}
  Bytes held() const override { return memory_.held(); }
  Bytes peak() const override { return memory_.peak(); }
  Bytes reserved() const override { return memory_.reserved(); }
  void restart_peak() override { memory_.restart_peak(); }

 private:
  const std::string kind_ = "remote";
  CpuDevice memory_;
};

// From the copies-th copy to the host on, counted from now and on threads that
// are no worker's, the device fails as a GPU does; negative: it does not.
void fail_after(int copies);

// How many copies were made late, by this process.
int num_late_copies();
// How often pinned memory was freed by a thread that is neither a worker's nor
// the first.
int num_freed_elsewhere();

}  // namespace pipewright::testing
