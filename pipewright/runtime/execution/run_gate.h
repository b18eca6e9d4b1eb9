// What a run tells and asks while it is in progress. A run can end early: every
// worker asks before each repetition of its body, and all end after the same
// one.

#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

namespace pipewright {

// Samples `first` to `end` of a microbatch have this mean loss.
using LossHook = std::function<void(std::int64_t microbatch, std::int32_t first,
                                    std::int32_t end, double mean)>;

// Called on workers' threads; may be empty. Of several processes the leader's
// are called.
struct RunHooks {
  // Whether the run is to end with the minibatches that have begun, which are
  // this many.
  std::function<bool(std::int64_t)> is_to_end;
  // It is decided that the run ends early, after as many.
  std::function<void(std::int64_t)> on_early_end;
  LossHook on_loss;

  // The same for a run of which `outside` minibatches are not counted.
  RunHooks without(int outside) const {
    RunHooks counted = *this;
    if (is_to_end)
      counted.is_to_end = [hook = is_to_end, outside](std::int64_t many) {
        return hook(many + outside);
      };
    if (on_early_end)
      counted.on_early_end = [hook = on_early_end, outside](std::int64_t many) {
        hook(many + outside);
      };
    return counted;
  }
};

class RunGate {
 public:
  virtual ~RunGate() = default;

  // Called by workers, each for 0, 1, 2, ... False: go on with the epilogue.
  virtual bool begins(int repetition) = 0;
  // A worker has this loss; it goes to the leader's hook.
  virtual void add_loss(std::int64_t microbatch, std::int32_t first,
                        std::int32_t end, double mean) = 0;
  // Called by a worker after its last action.
  virtual void finish() {}

  // How many there are; known when all workers have ended.
  virtual int repetitions() const = 0;
};

// For workers of one process. The first to begin a repetition decides: once
// training is to end, no repetition begins that no worker has begun.
class InProcessGate final : public RunGate {
 public:
  // `hooks` count repetitions. Without is_to_end the run has all of them.
  InProcessGate(int repetitions, RunHooks hooks)
      : repetitions_(repetitions), hooks_(std::move(hooks)) {}

  bool begins(int repetition) override {
    const std::lock_guard lock(mutex_);
    if (repetition >= repetitions_) return false;
    if (repetition < begun_) return true;
    if (repetition > 0 && hooks_.is_to_end && hooks_.is_to_end(begun_)) {
      repetitions_ = begun_;
      if (hooks_.on_early_end) hooks_.on_early_end(repetitions_);
      return false;
    }
    begun_ = repetition + 1;
    return true;
  }
  void add_loss(std::int64_t microbatch, std::int32_t first, std::int32_t end,
                double mean) override {
    if (hooks_.on_loss) hooks_.on_loss(microbatch, first, end, mean);
  }
  int repetitions() const override { return repetitions_; }

 private:
  std::mutex mutex_;
  int repetitions_, begun_ = 0;
  const RunHooks hooks_;
};

}  // namespace pipewright
