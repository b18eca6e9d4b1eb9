#include "pipewright/planners/auto/host_clock.h"

#include <algorithm>

#include "pipewright/base/index.h"
#include "pipewright/plan/schedule/stage_chain.h"

namespace pipewright {
namespace {

class HostClock {
 public:
  HostClock(const Schedule& schedule, const std::vector<HostStageTimes>& stages)
      : orders_(schedule.sections().body),
        stages_(stages),
        workers_(stages.size()),
        microbatches_(schedule.num_microbatches()),
        arrivals_(2 * stages.size() * at(microbatches_), -1) {}

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

  int num_stages() const { return static_cast<int>(stages_.size()); }
  double& arrival(const PassedValue& value) {
    return arrivals_[value.index(num_stages(), microbatches_)];
  }
  bool is_read(const PassedValue& value) const {
    return value.is_gradient ? value.stage.value > 0
                             : value.stage.value + 1 < num_stages();
  }

  // Runs the stage's next action; false if it has none or must wait.
  bool step(std::size_t s) {
    Worker& worker = workers_[s];
    if (worker.next == orders_[s].size()) return false;
    const ComputeAction& action = orders_[s][worker.next];
    const HostStageTimes& times = stages_[s];
    const auto read = read_of_neighbour(action, num_stages());
    const double input = read ? arrival(*read) : 0;
    if (input < 0) return false;
    worker.clock = std::max(worker.clock, input) + seconds(action.kind, times);
    if (const auto made = passed_on(action); made && is_read(*made))
      arrival(*made) = sent(
          made->is_gradient ? times.send_backward : times.send_forward, worker);
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
  const int microbatches_;
  std::vector<double> arrivals_;  // of passed values; negative: unknown
};

}  // namespace

double host_clock(const Schedule& schedule,
                  const std::vector<HostStageTimes>& stages) {
  return HostClock(schedule, stages).run();
}

}  // namespace pipewright
