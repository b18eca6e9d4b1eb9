#include "pipewright/schedules/zero_bubble_greedy.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

#include "pipewright/base/index.h"

namespace pipewright::zb {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();

class Greedy {
 public:
  Greedy(const Problem& problem, const Policy& policy)
      : problem_(problem),
        policy_(policy),
        order_(at(problem.workers)),
        workers_(at(problem.workers)),
        stages_(at(problem.stages())),
        ready_(at(problem.num_actions()), kUnknown) {
    for (int m = 0; m < problem.microbatches; ++m)
      ready_[at(problem.action(0, m, kForward))] = 0;
    for (int w = 0; w < problem.workers; ++w)
      order_[at(w)].reserve(
          at(3 * problem.stages_per_worker * problem.microbatches));
  }

  Order run() {
    for (int w = 0; w < problem_.workers; ++w) wakes_.push({0, w});
    while (!wakes_.empty()) {
      const auto [now, worker] = wakes_.top();
      wakes_.pop();
      if (workers_[at(worker)].busy_until <= now) decide(worker, now);
    }
    return std::move(order_);
  }

 private:
  struct Worker {
    double busy_until = 0;
    int held = 0;            // from F to W
    int awaiting = 0;        // from F to I
    bool was_input = false;  // of F and I, the last was I
    std::vector<int> weights;
    std::size_t next_weight = 0;
  };
  struct Stage {
    int forwards = 0, inputs = 0;
  };
  // The next action of its kind, and when it can start.
  struct Choice {
    int action = -1;
    double ready = kUnknown;
  };

  // On the way down the V memory for one activation is left, so that the oldest
  // microbatch can always go up, come back, and free its two.
  bool may_forward(int stage, const Worker& worker, int w) const {
    const bool is_down = problem_.is_v() && stage < problem_.workers;
    if (worker.held + (is_down ? 2 : 1) > problem_.limit[at(w)]) return false;
    return stage >= problem_.workers || worker.awaiting < policy_.ahead[at(w)];
  }

  // Of two stages, the later one first.
  Choice next_forward(int w) const {
    Choice best;
    for (int i = problem_.stages_per_worker - 1; i >= 0; --i) {
      const int stage = i == 0 ? w : 2 * problem_.workers - 1 - w;
      const int m = stages_[at(stage)].forwards;
      if (m == problem_.microbatches || !may_forward(stage, workers_[at(w)], w))
        continue;
      offer(best, problem_.action(stage, m, kForward), w);
    }
    return best;
  }
  Choice next_input(int w) const {
    Choice best;
    for (int i = 0; i < problem_.stages_per_worker; ++i) {
      const int stage = i == 0 ? w : 2 * problem_.workers - 1 - w;
      const int m = stages_[at(stage)].inputs;
      if (m == stages_[at(stage)].forwards) continue;
      offer(best, problem_.action(stage, m, kInput), w);
    }
    return best;
  }
  void offer(Choice& best, int action, int w) const {
    const double ready =
        std::max(ready_[at(action)], workers_[at(w)].busy_until);
    if (best.action < 0 || ready < best.ready) best = {action, ready};
  }

  void decide(int w, double now) {
    Worker& worker = workers_[at(w)];
    worker.busy_until = now;
    const Choice input = next_input(w), forward = next_forward(w);
    const bool has_weight = worker.next_weight < worker.weights.size();
    const bool forward_ready = forward.ready <= now;
    if (policy_.free_memory_first && has_weight && lacks_memory(w, now))
      return start(w, worker.weights[worker.next_weight], now);
    if (input.ready <= now && (!forward_ready || input_comes_first(worker)))
      return start(w, input.action, now);
    const double wait =
        forward_ready ? policy_.forward_wait * problem_.duration(forward.action)
                      : 0;
    const bool waits = input.ready > now && input.ready < now + wait;
    if (forward_ready && !waits) return start(w, forward.action, now);
    if (!has_weight) return;
    const int weight = worker.weights[worker.next_weight];
    const double length = problem_.duration(weight);
    const double next = std::min(input.ready, waits ? kUnknown : forward.ready);
    if (now + length <= next + policy_.weight_overlap * length)
      start(w, weight, now);
  }

  bool input_comes_first(const Worker& worker) const {
    switch (policy_.first) {
      case Policy::First::Input:
        return true;
      case Policy::First::Forward:
        return false;
      default:
        return !worker.was_input;
    }
  }

  // Whether an F is ready but lacks memory.
  bool lacks_memory(int w, double now) const {
    const Worker& worker = workers_[at(w)];
    const int stage = w;
    const int m = stages_[at(stage)].forwards;
    return m < problem_.microbatches &&
           worker.held + problem_.stages_per_worker > problem_.limit[at(w)] &&
           ready_[at(problem_.action(stage, m, kForward))] <= now;
  }

  void start(int w, int action, double now) {
    Worker& worker = workers_[at(w)];
    const double end = now + problem_.duration(action);
    const int stage = problem_.stage_of(action);
    order_[at(w)].push_back(action);
    worker.busy_until = end;
    wakes_.push({end, w});
    switch (Problem::kind_of(action)) {
      case kForward:
        ++stages_[at(stage)].forwards;
        ++worker.held;
        ++worker.awaiting;
        worker.was_input = false;
        publish(
            w, end,
            stage + 1 < problem_.stages() ? action + next_stage() : action + 1);
        break;
      case kInput:
        ++stages_[at(stage)].inputs;
        --worker.awaiting;
        worker.was_input = true;
        worker.weights.push_back(action + 1);
        if (stage > 0) publish(w, end, action - next_stage());
        break;
      default:
        ++worker.next_weight;
        --worker.held;
    }
  }

  int next_stage() const { return 3 * problem_.microbatches; }

  void publish(int from, double end, int consumer) {
    const int to = problem_.worker_of(problem_.stage_of(consumer));
    const double ready = end + (to == from ? 0 : problem_.transfer);
    ready_[at(consumer)] = ready;
    if (to != from) wakes_.push({ready, to});
  }

  const Problem& problem_;
  const Policy& policy_;
  Order order_;
  std::vector<Worker> workers_;
  std::vector<Stage> stages_;
  std::vector<double> ready_;  // when an action's input has arrived
  using Wake = std::pair<double, int>;
  std::priority_queue<Wake, std::vector<Wake>, std::greater<>> wakes_;
};

}  // namespace

Order greedy_order(const Problem& problem, const Policy& policy) {
  return Greedy(problem, policy).run();
}

}  // namespace pipewright::zb
