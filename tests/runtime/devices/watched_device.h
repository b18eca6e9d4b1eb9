// A device for tests, in memory of the host, that is treated like a GPU: it
// counts its moments and knows which ones of others it has waited for, and
// writes the times of its stamps only when it is asked to finish.

#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "pipewright/runtime/devices/cpu_device.h"

namespace pipewright::testing {

class WatchedDevice final : public WorkerDevice {
 public:
  explicit WatchedDevice(int number) : number_(number) {}

  // How many moments it has had, and the last one of another device that it
  // has waited for.
  std::int64_t num_moments() const { return num_moments_; }
  std::int64_t known(int other) const {
    const auto found = known_.find(other);
    return found == known_.end() ? 0 : found->second;
  }
  std::int64_t num_copies() const { return num_copies_; }
  bool moments_pass = false;  // at once; otherwise never
  std::function<void(const at::Tensor&)> on_copy;

  const std::string& kind() const override { return kind_; }
  at::Device place() const override { return at::kCPU; }
  void serve_this_thread() override { memory_.serve_this_thread(); }
  bool computes_at_once() const override { return false; }
  bool reads_memory_of(const WorkerDevice&) const override { return true; }
  at::Tensor copy(const at::Tensor& tensor) override {
    ++num_copies_;
    if (on_copy) on_copy(tensor);
    return host_copy(tensor);
  }

  MomentPointer moment() override {
    return std::make_shared<CountedMoment>(number_, ++num_moments_,
                                           moments_pass);
  }
  void wait_for(const MomentPointer& moment) override {
    if (!moment) return;
    const auto& counted = dynamic_cast<const CountedMoment&>(*moment);
    std::int64_t& last = known_[counted.device];
    last = std::max(last, counted.count);
  }
  void finish() override {
    for (const auto& [place, time] : stamps_) *place = time;
    stamps_.clear();
  }
  void start_clock(Clock::time_point start) override {
    memory_.start_clock(start);
  }
  void stamp(Seconds& time) override {
    Seconds now;
    memory_.stamp(now);
    stamps_.emplace_back(&time, now);
  }

  void take_over(const at::Tensor& tensor) override {
    memory_.take_over(tensor);
  }
  Bytes held() const override { return memory_.held(); }
  Bytes peak() const override { return memory_.peak(); }
  Bytes reserved() const override { return memory_.reserved(); }
  void restart_peak() override { memory_.restart_peak(); }

 private:
  struct CountedMoment final : Moment {
    CountedMoment(int d, std::int64_t c, bool p)
        : device(d), count(c), passes(p) {}
    bool has_passed() const override { return passes; }
    void wait() const override {}

    int device;
    std::int64_t count;
    bool passes;
  };

  const std::string kind_ = "watched";
  const int number_;
  CpuDevice memory_;
  std::int64_t num_moments_ = 0, num_copies_ = 0;
  std::map<int, std::int64_t> known_;
  std::vector<std::pair<Seconds*, Seconds>> stamps_;
};

}  // namespace pipewright::testing
