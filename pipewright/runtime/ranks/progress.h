// Where the workers of a rank are: written by them at each action, read by the
// heartbeat and by failure reports. Nothing here judges.

#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "pipewright/base/ids.h"
#include "pipewright/base/units.h"
#include "pipewright/plan/program/place.h"

namespace pipewright {

enum class Phase : std::int32_t {
  SetUp,    // before the first run
  Between,  // two runs: reports, checkpoints
  Computes,
  Waits,  // for another worker
};

struct PastAction {
  Place place;
  Seconds since_start;
};

// What a heartbeat carries.
struct Snapshot {
  Phase phase = Phase::SetUp;
  std::int64_t count = 0;  // actions begun and phases entered
  Place place;             // of the last action begun
  // So far; the last step of each run counts as the mean of that run.
  Seconds longest_step;
};

class Progress {
 public:
  static constexpr std::size_t kRemembered = 64;

  Progress();

  void begin(WorkerId worker, const Action& action, std::int64_t microbatch,
             int num_microbatches);
  void enter(Phase phase);
  // While a device is busy its worker does not compute but waits.
  void set_device_busy(bool is_busy);
  Snapshot snapshot() const;
  std::vector<PastAction> last_actions() const;  // the oldest first

 private:
  using Clock = std::chrono::steady_clock;

  void add_step(Clock::duration time);

  mutable std::mutex mutex_;
  const Clock::time_point start_;
  Clock::time_point run_start_, step_start_;
  std::int64_t newest_step_ = 0, num_begun_ = 0;  // of this run
  bool is_in_run_ = false, is_device_busy_ = false;
  Snapshot now_;
  std::array<PastAction, kRemembered> ring_;
  std::size_t num_actions_ = 0;
};

}  // namespace pipewright
