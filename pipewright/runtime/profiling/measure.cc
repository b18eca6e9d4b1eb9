// Repeated measurements, and those of the in-process channel; see profiler.h.

#include <algorithm>
#include <chrono>

#include "pipewright/runtime/channels/in_process.h"
#include "pipewright/runtime/devices/cpu_device.h"
#include "pipewright/runtime/execution/cores.h"
#include "pipewright/runtime/execution/worker_threads.h"
#include "pipewright/runtime/profiling/profiler.h"

namespace pipewright {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMinTimes = 5, kMaxTimes = 200;

Seconds elapsed_since(Clock::time_point start) {
  return Seconds(std::chrono::duration<double>(Clock::now() - start).count());
}

// Two workers and a transfer in each direction.
Program there_and_back() {
  Program program;
  program.num_stages = 2;
  program.workers.resize(2);
  for (const int from : {0, 1}) {
    Transfer transfer;
    transfer.from = WorkerId(from);
    transfer.to = WorkerId(1 - from);
    program.transfers.push_back(transfer);
  }
  return program;
}

}  // namespace

Sample summary(std::vector<Seconds> times) {
  std::sort(times.begin(), times.end());
  const std::size_t n = times.size();
  Sample sample{times[n / 2], times[n / 2], 0};
  if (sample.median > Seconds(0))
    sample.spread = (times[3 * n / 4] - times[n / 4]) / sample.median;
  Seconds sum;
  int count = 0;
  for (const Seconds time : times) {
    if (time > sample.median * 2.0) break;
    sum += time;
    ++count;
  }
  sample.mean = sum / count;
  return sample;
}

Sample measured(const std::function<void()>& work, Seconds budget) {
  const Clock::time_point start = Clock::now();
  work();  // allocators, caches and pages
  work();
  std::vector<Seconds> times;
  while (times.size() < kMaxTimes &&
         (times.size() < kMinTimes || elapsed_since(start) < budget)) {
    const Clock::time_point begin = Clock::now();
    work();
    times.push_back(elapsed_since(begin));
  }
  return summary(std::move(times));
}

// On cores as workers have them: two threads on one core would take turns.
Sample channel_latency(Seconds budget) {
  const Program program = there_and_back();
  auto channels = in_process_channels(program);
  const at::Tensor message = at::ones({4});
  const auto send = [&](int worker, std::int32_t key, const at::Tensor& what) {
    channels[worker]->send(TransferId(worker), key, {{what}});
  };
  const auto answer = [&] {
    for (std::int32_t key = 0;; ++key) {
      channels[1]->post(TransferId(0), key);
      if (!channels[1]->take(TransferId(0), key)[0][0].defined()) return;
      send(1, key, message);
    }
  };
  Sample round_trip;
  const auto ask = [&] {
    std::int32_t key = 0;
    const auto there_and_back_again = [&] {
      channels[0]->post(TransferId(1), key);
      send(0, key, message);
      channels[0]->take(TransferId(1), key);
      ++key;
    };
    round_trip = measured(there_and_back_again, budget);
    send(0, key, at::Tensor());  // the end
  };
  CpuDevice devices[2];
  WorkerThreads threads({&devices[0], &devices[1]}, keeps_to_cores(2) ? 0 : -1);
  threads.run([&](std::size_t worker) { worker == 0 ? ask() : answer(); });
  return {round_trip.median / 2, round_trip.mean / 2, round_trip.spread};
}

double reduction_rate(Seconds budget) {
  constexpr std::int64_t kBytes = 1 << 20;
  const at::Tensor part = at::ones({kBytes / 4});
  at::Tensor sum;
  const Sample sample = measured([&] { sum = part.add(part); }, budget);
  return kBytes / sample.median.value();
}

}  // namespace pipewright
