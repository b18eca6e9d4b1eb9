// What a worker computes on: where its tensors are, in which order its kernels
// run, what time they ran, and how another worker waits for them.
//
// A CPU core computes at once: a kernel is done when it returns. A GPU has a
// stream: a kernel has only been put into it, and runs after those before it.
// The worker's thread does not wait for it. Another worker that reads its
// result waits for the moment at which it was made, in its own stream. So a
// worker never asks which of the two it has, and reads a number of a tensor
// only where it may wait.
//
// Every call may come from any thread, one at a time.

#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "pipewright/base/units.h"
#include "pipewright/runtime/device_fault.h"
#include "pipewright/runtime/devices/work_log.h"

namespace pipewright {

// Work that a device was shown once and can be given as a whole, again and
// again.
class Recording {
 public:
  virtual ~Recording() = default;
  // Gives it to the device. Its stamps are written to `times`, in the order in
  // which they were recorded.
  virtual void replay(std::span<Seconds* const> times) = 0;
  virtual std::size_t num_kernels() const = 0;
};

class WorkerDevice;

// Recordings of several devices in an order of their own, given as a whole.
class JointRecording {
 public:
  using Node = std::size_t;

  virtual ~JointRecording() = default;
  // Adds a recording that has kernels, and must outlive this object, to run
  // after those nodes.
  virtual Node add(const Recording& recording, std::span<const Node> after) = 0;
  // Adds a stamp of the device, which delays nothing.
  virtual void add_stamp(WorkerDevice& device, std::span<const Node> after) = 0;
  // All has been added.
  virtual void end() = 0;
  // Gives it to the device as work of its own.
  virtual void replay(WorkerDevice& device) = 0;
  // What that device stamps in the last replay is written to `times`, in the
  // order in which it was added.
  virtual void write_stamps(WorkerDevice& device,
                            std::span<Seconds* const> times) = 0;
};

class WorkerDevice {
 public:
  using Clock = std::chrono::steady_clock;

  virtual ~WorkerDevice() = default;

  virtual const std::string& kind() const = 0;  // "cpu", "cuda/4"
  virtual at::Device place() const = 0;         // where its tensors are

  // The calling thread allocates and computes here from now on.
  virtual void serve_this_thread() = 0;

  // The one that the calling thread, a worker's, computes on; null: none.
  static WorkerDevice*& of_this_thread() {
    static thread_local WorkerDevice* device = nullptr;
    return device;
  }

  // Whether a kernel is done when it returns.
  virtual bool computes_at_once() const = 0;
  // Whether this device may read the other one's tensors where they are.
  virtual bool reads_memory_of(const WorkerDevice& other) const = 0;
  // A new tensor here with the same numbers. What it copies may be in any
  // memory; it must stay until the moment after this call.
  virtual at::Tensor copy(const at::Tensor& tensor) = 0;
  // Gives `to`, a tensor that is here, the numbers of `from`, which may be in
  // any memory. That of a device must stay until the moment after this call.
  virtual void fill(at::Tensor& to, const at::Tensor& from) {
    to.copy_(from, /*non_blocking=*/true);
  }
  // The tensor itself if it is here; otherwise a copy.
  at::Tensor bring(const at::Tensor& tensor) {
    return tensor.device() == place() ? tensor : copy(tensor);
  }

  virtual MomentPointer moment() = 0;
  // What is given to this device from now on runs after that moment.
  virtual void wait_for(const MomentPointer& moment) = 0;
  // What is given to it between these calls waits for another process.
  virtual void begin_wait() {}
  virtual void end_wait() {}
  // Blocks the calling thread until all work is done and all stamps are
  // written. Throws what a kernel has failed with.
  virtual void finish() = 0;

  // Times count from `start`.
  virtual void start_clock(Clock::time_point start) = 0;
  // Writes the time at which the device gets here: now, or later, but before
  // finish() returns. `time` must stay where it is until then.
  virtual void stamp(Seconds& time) = 0;

  // Whether work can be recorded.
  virtual bool records() const { return false; }
  // What `work` would give to the device; nothing is given to it. What `work`
  // allocates stays where it is for every replay. Throws what `work` throws,
  // and if the device cannot record it.
  virtual std::unique_ptr<Recording> record(const std::function<void()>&) {
    return nullptr;
  }
  // Recordings from now on share memory: what one has freed the next may use,
  // so they are replayed in the order in which they were made.
  virtual void begin_recordings() {}
  // They are gone. Recordings from now on have memory of their own.
  virtual void end_recordings() {}
  // For recordings of this and other devices of the same place; null if the
  // device has none.
  virtual std::unique_ptr<JointRecording> joint_recording() { return nullptr; }

  // Of a device that does not compute at once: what it has done and waits for.
  virtual WorkLog* log() { return nullptr; }
  // Breaks it on purpose.
  virtual void suffer(DeviceFault fault);

  // What is behind the tensor counts here from now on, where devices share
  // memory. Its holders are not using it meanwhile.
  virtual void take_over(const at::Tensor& tensor) = 0;
  virtual Bytes held() const = 0;      // by tensors, now
  virtual Bytes peak() const = 0;      // the most, since restart_peak()
  virtual Bytes reserved() const = 0;  // also by what is kept for the next ones
  virtual void restart_peak() = 0;
};

// Gives the calling thread's device what waits for another process.
template <class Wait>
void wait_for_other_process(Wait wait) {
  WorkerDevice* const device = WorkerDevice::of_this_thread();
  if (device) device->begin_wait();
  wait();
  if (device) device->end_wait();
}

// What a piece of work takes of a device's memory only while it runs. Restarts
// the device's peak.
class PassingMemory {
 public:
  explicit PassingMemory(WorkerDevice& device)
      : device_(device), before_(device.held()) {
    device.restart_peak();
  }
  // Beyond what was held before, or is held now.
  Bytes taken() const {
    return device_.peak() - std::max(before_, device_.held());
  }

 private:
  WorkerDevice& device_;
  Bytes before_;
};

// The tensor in memory of the host; always a copy, which is there on return.
inline at::Tensor host_copy(const at::Tensor& tensor) {
  return tensor.to(at::TensorOptions(at::kCPU), /*non_blocking=*/false,
                   /*copy=*/true);
}

// Gives `target` the numbers of a tensor in memory of the host: where it is, if
// the device's recordings may read it there, else as a new tensor.
inline void renew(at::Tensor& target, const at::Tensor& source,
                  WorkerDevice& device) {
  if (device.records() && target.defined() && target.device() == device.place())
    target.copy_(device.copy(source));
  else
    target = device.copy(source);
}

}  // namespace pipewright
