// Reports steps while a run is in progress: workers hand in losses of parts of
// microbatches, in any order, and a thread reports each step when all its
// samples are there, several short ones after one another. Workers never wait
// for it.

#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "pipewright/base/units.h"

namespace pipewright {

class StepReporter {
 public:
  // Called with the number of steps done, the mean loss of the last one, and
  // the time since the one before it, on the reporter's thread.
  using Hook = std::function<void(std::int64_t step, double loss, Seconds)>;

  StepReporter(int num_microbatches, int microbatch_samples, Hook hook);
  ~StepReporter();

  // The next step to report is the one after `done`; what is known of others
  // is dropped.
  void begin(std::int64_t done);
  // Samples `first` to `end` of a microbatch have this mean loss.
  void add(std::int64_t microbatch, std::int32_t first, std::int32_t end,
           double mean);
  // Returns when everything that was handed in is reported.
  void wait();

 private:
  using Clock = std::chrono::steady_clock;
  struct Part {
    double mean = 0;
    std::int32_t samples = 0;
  };
  // Of a minibatch: by microbatch and first sample, and how many are there.
  struct Minibatch {
    std::map<std::pair<std::int64_t, std::int32_t>, Part> parts;
    std::int64_t samples = 0;
    Clock::time_point complete;
  };
  struct Step {
    std::int64_t step = 0;
    double loss = 0;
    Seconds seconds;
  };

  double mean_loss(const Minibatch& minibatch) const;
  std::optional<Step> next_step();
  void report();

  const int num_microbatches_, microbatch_samples_;
  const Hook hook_;
  std::mutex mutex_;
  std::condition_variable changed_, hurries_;
  std::map<std::int64_t, Minibatch> minibatches_;  // by step, from 0
  std::int64_t done_ = 0;
  Clock::time_point last_;
  bool is_reporting_ = false, is_awaited_ = false, ends_ = false;
  std::thread thread_;
};

}  // namespace pipewright
