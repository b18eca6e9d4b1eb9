#include "pipewright/planners/auto/host_clock.h"

#include <algorithm>

#include "pipewright/base/index.h"

namespace pipewright {
namespace {

class HostClock {
 public:
  HostClock(const Schedule& schedule, const std::vector<HostStageTimes>& stages)
      : orders_(schedule.sections().body),
        stages_(stages),
        workers_(stages.size()),
        microbatches_(at(schedule.num_microbatches())),
        arrivals_(2 * stages.size() * microbatches_, -1) {}

  // In turns, each stage as far as its inputs are known.
  double run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t s = 0; s < stages_.size(); ++s)
        while (step(s)) moved = true;
    }
    double end = 0;
    for (std::size_t s = 0; s < stages_.size(); ++s)
      end = std::max(end, workers_[s].clock + stages_[s].after);
    return end;
  }

 private:
  struct Worker {
    std::size_t next = 0;  // action
    double clock = 0;
    double link_free = 0;
  };

  double& arrival(bool backward, std::size_t stage, MicrobatchId microbatch) {
    return arrivals_[2 * (stage * microbatches_ + microbatch.index()) +
                     (backward ? 1 : 0)];
  }

  // Runs the stage's next action; false if it has none or must wait.
  bool step(std::size_t s) {
    Worker& worker = workers_[s];
    if (worker.next == orders_[s].size()) return false;
    const ComputeAction& action = orders_[s][worker.next];
    const HostStageTimes& times = stages_[s];
    const bool last = s + 1 == stages_.size();
    double input = 0;
    if (action.kind == ComputeKind::Forward && s > 0)
      input = arrival(false, s, action.microbatch);
    if (starts_backward(action.kind) && !last)
      input = arrival(true, s, action.microbatch);
    if (input < 0) return false;
    worker.clock = std::max(worker.clock, input) + seconds(action.kind, times);
    if (action.kind == ComputeKind::Forward && !last)
      arrival(false, s + 1, action.microbatch) =
          sent(times.send_forward, worker);
    if (starts_backward(action.kind) && s > 0)
      arrival(true, s - 1, action.microbatch) =
          sent(times.send_backward, worker);
    ++worker.next;
    return true;
  }

  // When a message arrives that the worker sends now.
  static double sent(double seconds, Worker& worker) {
    worker.link_free = std::max(worker.clock, worker.link_free) + seconds;
    return worker.link_free;
  }

  static double seconds(ComputeKind kind, const HostStageTimes& times) {
    switch (kind) {
      case ComputeKind::Forward:
      case ComputeKind::Recompute:
        return times.forward;
      case ComputeKind::Backward:
        return times.backward_input + times.backward_weight;
      case ComputeKind::BackwardInput:
        return times.backward_input;
      case ComputeKind::BackwardWeight:
        return times.backward_weight;
    }
    return 0;
  }

  const Orders& orders_;
  const std::vector<HostStageTimes>& stages_;
  std::vector<Worker> workers_;
  const std::size_t microbatches_;
  std::vector<double> arrivals_;  // by stage and microbatch; negative: unknown
};

}  // namespace

double host_clock(const Schedule& schedule,
                  const std::vector<HostStageTimes>& stages) {
  return HostClock(schedule, stages).run();
}

}  // namespace pipewright
