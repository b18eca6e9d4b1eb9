// A core of this machine, with a heap for its tensors.

#pragma once

#include "pipewright/runtime/devices/tensor_heap.h"
#include "pipewright/runtime/devices/worker_device.h"

namespace pipewright {

class CpuDevice final : public WorkerDevice {
 public:
  const std::string& kind() const override { return kind_; }
  at::Device place() const override { return at::kCPU; }
  void serve_this_thread() override { heap_.serve_this_thread(); }

  bool computes_at_once() const override { return true; }
  bool reads_memory_of(const WorkerDevice& other) const override {
    return other.place().is_cpu();
  }
  // Of another device's tensor: waits until it has come.
  at::Tensor copy(const at::Tensor& tensor) override {
    return host_copy(tensor);
  }

  MomentPointer moment() override { return nullptr; }
  void wait_for(const MomentPointer& moment) override {
    if (moment) moment->wait();
  }
  void finish() override {}

  void start_clock(Clock::time_point start) override { start_ = start; }
  void stamp(Seconds& time) override {
    time =
        Seconds(std::chrono::duration<double>(Clock::now() - start_).count());
  }

  void take_over(const at::Tensor& tensor) override { heap_.take_over(tensor); }
  Bytes held() const override { return heap_.held(); }
  Bytes peak() const override { return heap_.peak(); }
  Bytes reserved() const override { return heap_.reserved(); }
  void restart_peak() override { heap_.restart_peak(); }

 private:
  const std::string kind_ = "cpu";
  TensorHeap heap_;
  Clock::time_point start_ = Clock::now();
};

}  // namespace pipewright
