// What a run tells and asks while it is in progress. A run can end early: every
// worker asks before each repetition of its body, and all end after the same
// one. The first to begin a repetition decides: once training is to end, no
// repetition begins that no worker has begun.

#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <mutex>
#include <utility>

namespace pipewright {

// Called on workers' threads; may be empty.
struct RunHooks {
  // Whether the run is to end with the minibatches that have begun. Of several
  // processes nobody is asked.
  std::function<bool()> is_to_end;
  // It ends early with at most this many: what remains may have to fill and
  // drain a pipeline.
  std::int64_t most_if_early = std::numeric_limits<std::int64_t>::max();
  // Samples `first` to `end` of a microbatch have this mean loss.
  std::function<void(std::int64_t microbatch, std::int32_t first,
                     std::int32_t end, double mean)>
      on_loss;
};

class RunGate {
 public:
  // Without `is_to_end` the run has all its repetitions.
  RunGate(int repetitions, std::function<bool()> is_to_end,
          std::int64_t most_if_early = std::numeric_limits<std::int64_t>::max())
      : repetitions_(repetitions),
        is_to_end_(std::move(is_to_end)),
        most_if_early_(most_if_early) {}

  // Called by workers, each for 0, 1, 2, ... False: go on with the epilogue.
  bool begins(int repetition) {
    const std::lock_guard lock(mutex_);
    if (repetition >= repetitions_) return false;
    if (repetition < begun_) return true;
    if (repetition > 0 && begun_ <= most_if_early_ && is_to_end_ &&
        is_to_end_()) {
      repetitions_ = begun_;
      return false;
    }
    begun_ = repetition + 1;
    return true;
  }

  // How many there are; known when all workers have ended.
  int repetitions() const { return repetitions_; }

 private:
  std::mutex mutex_;
  int repetitions_, begun_ = 0;
  const std::function<bool()> is_to_end_;
  const std::int64_t most_if_early_;
};

}  // namespace pipewright
