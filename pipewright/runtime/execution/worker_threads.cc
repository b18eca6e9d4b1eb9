// Threads that wait for the next run; see worker_threads.h.

#include "pipewright/runtime/execution/worker_threads.h"

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <pthread.h>
#include <sched.h>

#include "pipewright/runtime/execution/cores.h"

namespace pipewright {
namespace {

// A hint: where the system refuses, the thread runs where it may.
void pin(std::thread& thread, int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  ::pthread_setaffinity_np(thread.native_handle(), sizeof set, &set);
}

}  // namespace

WorkerThreads::WorkerThreads(std::vector<WorkerDevice*> devices, int first_core)
    : devices_(std::move(devices)) {
  const std::vector<int> cores = usable_cores();
  const auto count = static_cast<int>(devices_.size());
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    threads_.emplace_back([this, i] { live(i); });
    if (first_core >= 0 && first_core + count <= static_cast<int>(cores.size()))
      pin(threads_.back(), cores[first_core + i]);
  }
}

WorkerThreads::~WorkerThreads() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wakes_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerThreads::run(const std::function<void(std::size_t)>& work) {
  std::unique_lock lock(mutex_);
  work_ = &work;
  num_running_ = static_cast<int>(threads_.size());
  ++round_;
  wakes_.notify_all();
  done_.wait(lock, [&] { return num_running_ == 0; });
}

void WorkerThreads::live(std::size_t index) {
  const c10::InferenceMode guard;
  at::set_num_threads(1);
  devices_[index]->serve_this_thread();
  WorkerDevice::of_this_thread() = devices_[index];
  use_device_fault(
      [device = devices_[index]](DeviceFault fault) { device->suffer(fault); });
  for (std::uint64_t seen = 0;;) {
    std::unique_lock lock(mutex_);
    wakes_.wait(lock, [&] { return ends_ || round_ != seen; });
    if (ends_) return;
    seen = round_;
    lock.unlock();
    (*work_)(index);
    lock.lock();
    if (--num_running_ == 0) done_.notify_all();
  }
}

}  // namespace pipewright
