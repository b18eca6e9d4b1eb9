// The threads that workers run on: one each, kept from run to run, on cores of
// their own where that serves (cores.h), and each with a device of its own.

#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "pipewright/runtime/devices/worker_device.h"

namespace pipewright {

class WorkerThreads {
 public:
  // A thread for each device. Each stays on a core, from the first-th of
  // usable_cores() on; -1, or too few: all on any. The devices must outlive
  // this object.
  WorkerThreads(std::vector<WorkerDevice*> devices, int first_core);
  ~WorkerThreads();
  WorkerThreads(const WorkerThreads&) = delete;
  WorkerThreads& operator=(const WorkerThreads&) = delete;

  // Calls `work` with 0, 1, ... on all threads at once and waits for all. It
  // must not throw. Kernels it calls run on its thread alone.
  void run(const std::function<void(std::size_t)>& work);

 private:
  void live(std::size_t index);

  const std::vector<WorkerDevice*> devices_;
  std::mutex mutex_;  // of what follows
  std::condition_variable wakes_, done_;
  const std::function<void(std::size_t)>* work_ = nullptr;
  std::uint64_t round_ = 0;
  int num_running_ = 0;
  bool ends_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace pipewright
