#include "pipewright/schedules/list_order.h"

#include <queue>
#include <set>
#include <tuple>

#include "pipewright/base/index.h"

namespace pipewright {
namespace {

class ListScheduler {
 public:
  explicit ListScheduler(const ListOrderRequest& request)
      : request_(request),
        orders_(at(request.workers)),
        ready_(orders_.size()),
        busy_(orders_.size(), false),
        next_of_lane_(at(request.lanes)) {}

  Orders run() {
    for (int lane = 0; lane < request_.lanes; ++lane) {
      next_of_lane_[at(lane)] = MicrobatchId(lane);
      for (int i = 0; i < request_.in_flight_per_lane; ++i) admit(lane, 0);
    }
    while (!events_.empty()) {
      const double now = events_.top().time;
      std::vector<int> touched;
      while (!events_.empty() && events_.top().time == now) {
        const Event event = events_.top();
        events_.pop();
        touched.push_back(event.worker);
        if (event.arrives)
          ready_[at(event.worker)].insert(urgency(event.action));
        else
          busy_[at(event.worker)] = false;
      }
      for (int worker : touched) start(worker, now);
    }
    return std::move(orders_);
  }

 private:
  // Smaller is more urgent.
  using Urgency = std::tuple<int, MicrobatchId, int>;

  struct Event {
    double time = 0;
    int worker = 0;
    bool arrives = false;  // else the worker has become idle
    ComputeAction action;
    bool operator<(const Event& other) const { return time > other.time; }
  };

  static Urgency urgency(const ComputeAction& a) {
    return {a.kind == ComputeKind::Forward, a.microbatch, -a.stage.value};
  }
  static ComputeAction action_of(const Urgency& u) {
    const auto [forward, microbatch, stage] = u;
    return {StageId(-stage), microbatch,
            forward ? ComputeKind::Forward : ComputeKind::Backward};
  }

  double duration(const ComputeAction& a) const {
    if (request_.times.empty()) return 1;
    const auto& t = request_.times[a.stage.index()];
    return a.kind == ComputeKind::Forward
               ? t.forward.value()
               : (t.backward_input + t.backward_weight).value();
  }

  void arrive(const ComputeAction& a, double time, int from) {
    const int worker = request_.worker_of(a.stage.value, a.microbatch);
    if (from != worker && from >= 0) time += request_.transfer.value();
    events_.push({time, worker, true, a});
  }

  void admit(int lane, double time) {
    MicrobatchId& next = next_of_lane_[at(lane)];
    if (next.value >= request_.microbatches) return;
    arrive({StageId(0), next, ComputeKind::Forward}, time, -1);
    next += request_.lanes;
  }

  void start(int worker, double now) {
    const std::size_t w = at(worker);
    if (busy_[w] || ready_[w].empty()) return;
    const ComputeAction action = action_of(*ready_[w].begin());
    ready_[w].erase(ready_[w].begin());
    orders_[w].push_back(action);
    busy_[w] = true;
    const double end = now + duration(action);
    events_.push({end, worker, false, action});
    follow(action, end, worker);
  }

  void follow(const ComputeAction& a, double end, int worker) {
    const bool forward = a.kind == ComputeKind::Forward;
    if (forward && a.stage.value + 1 < request_.stages)
      arrive({StageId(a.stage.value + 1), a.microbatch, a.kind}, end, worker);
    else if (forward)
      arrive({a.stage, a.microbatch, ComputeKind::Backward}, end, worker);
    else if (a.stage.value > 0)
      arrive({StageId(a.stage.value - 1), a.microbatch, a.kind}, end, worker);
    else
      admit(a.microbatch.value % request_.lanes, end);
  }

  const ListOrderRequest& request_;
  Orders orders_;
  std::vector<std::set<Urgency>> ready_;
  std::vector<bool> busy_;
  std::vector<MicrobatchId> next_of_lane_;
  std::priority_queue<Event> events_;
};

}  // namespace

Orders list_order(const ListOrderRequest& request) {
  return ListScheduler(request).run();
}

}  // namespace pipewright
