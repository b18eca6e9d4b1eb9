#include "pipewright/schedules/makespan.h"

#include <algorithm>
#include <cstdint>

#include "pipewright/base/check.h"
#include "pipewright/base/index.h"
#include "pipewright/plan/schedule/stage_chain.h"

namespace pipewright {
namespace {

// Runs every worker as far as possible. A worker that lacks an input sleeps
// until the action that produces it wakes it, so that each action is visited a
// bounded number of times.
class LongestPath {
 public:
  LongestPath(const Orders& orders, int num_stages, int num_microbatches,
              const ScheduleRequest& request)
      : orders_(orders),
        num_stages_(num_stages),
        num_microbatches_(num_microbatches),
        times_(request.times),
        transfer_(request.transfer.value()),
        next_(orders.size(), 0),
        clock_(orders.size(), 0),
        spans_(orders.size()),
        values_(2 * at(num_stages) * at(num_microbatches)),
        next_sleeper_(orders.size(), -1) {
    if (times_.empty()) times_.resize(at(num_stages));
    PIPEWRIGHT_CHECK(times_.size() == at(num_stages),
                     "the request has times for " +
                         std::to_string(times_.size()) + " stages, not " +
                         std::to_string(num_stages));
    for (const auto& order : orders)
      for (const ComputeAction& action : order)
        if (Value* value = output_of(action)) ++value->producers;
  }

  std::optional<std::vector<WorkerSpan>> run() {
    for (int w = 0; w < static_cast<int>(orders_.size()); ++w)
      awake_.push_back(w);
    while (!awake_.empty()) {
      const int worker = awake_.back();
      awake_.pop_back();
      while (step(worker)) {
      }
    }
    for (std::size_t w = 0; w < orders_.size(); ++w)
      if (next_[w] < orders_[w].size()) return std::nullopt;
    return spans_;
  }

 private:
  // An activation or a gradient; with replicas several actions produce it.
  struct Value {
    double ready = 0;
    int producers = 0;  // actions that have not run yet
    int producer = -1;  // the last worker
    int first_sleeper = -1;
  };

  Value* value_of(const std::optional<PassedValue>& passed) {
    if (!passed) return nullptr;
    return &values_[passed->index(num_stages_, num_microbatches_)];
  }
  Value* output_of(const ComputeAction& a) { return value_of(passed_on(a)); }
  Value* input_of(const ComputeAction& a) {
    return value_of(read_of_neighbour(a, num_stages_));
  }
  double duration(const ComputeAction& a) const {
    const auto& t = times_[a.stage.index()];
    switch (a.kind) {
      case ComputeKind::Forward:
      case ComputeKind::Recompute:
        return t.forward.value();
      case ComputeKind::Backward:
        return t.backward_input.value() + t.backward_weight.value();
      case ComputeKind::BackwardInput:
        return t.backward_input.value();
      case ComputeKind::BackwardWeight:
        return t.backward_weight.value();
    }
    return 0;
  }

  // Runs the worker's next action, with the one that it is joined with; false
  // if it has none or must wait.
  bool step(int worker) {
    const std::size_t w = at(worker);
    const auto& order = orders_[w];
    if (next_[w] == order.size()) return false;
    const bool is_pair = order[next_[w]].joined && next_[w] + 1 < order.size();
    const std::size_t last = next_[w] + (is_pair ? 1 : 0);
    double start = clock_[w], length = 0;
    for (std::size_t i = next_[w]; i <= last; ++i) {
      if (Value* value = input_of(order[i])) {
        if (value->producers > 0) return sleep(worker, *value);
        start = std::max(
            start, value->ready + (value->producer == worker ? 0 : transfer_));
      }
      length += duration(order[i]);
    }
    if (next_[w] == 0) spans_[w].start = Seconds(start);
    clock_[w] = start + length;
    spans_[w].end = Seconds(clock_[w]);
    for (std::size_t i = next_[w]; i <= last; ++i) finish(worker, order[i]);
    next_[w] = last + 1;
    return true;
  }

  bool sleep(int worker, Value& value) {
    next_sleeper_[at(worker)] = value.first_sleeper;
    value.first_sleeper = worker;
    return false;
  }

  // Sets the action's output, and wakes the workers that wait for it.
  void finish(int worker, const ComputeAction& action) {
    Value* value = output_of(action);
    if (value == nullptr) return;
    const double end = clock_[at(worker)];
    if (value->producer < 0 || end >= value->ready) {
      value->ready = end;
      value->producer = worker;
    }
    if (--value->producers > 0) return;
    for (int s = value->first_sleeper; s >= 0; s = next_sleeper_[at(s)])
      awake_.push_back(s);
    value->first_sleeper = -1;
  }

  const Orders& orders_;
  const int num_stages_, num_microbatches_;
  std::vector<ScheduleRequest::StageTimes> times_;
  const double transfer_;
  std::vector<std::size_t> next_;
  std::vector<double> clock_;
  std::vector<WorkerSpan> spans_;
  std::vector<Value> values_;
  std::vector<int>
      next_sleeper_;  // by worker: another that waits for the value
  std::vector<int> awake_;
};

}  // namespace

std::optional<std::vector<WorkerSpan>> worker_spans(
    const Orders& orders, int num_stages, int num_microbatches,
    const ScheduleRequest& request) {
  return LongestPath(orders, num_stages, num_microbatches, request).run();
}

std::vector<WorkerSpan> worker_spans(const Schedule& schedule,
                                     const ScheduleRequest& request) {
  const int minibatches = std::max(1, schedule.sections().minibatches_outside);
  auto spans =
      schedule.is_asynchronous()
          ? worker_spans(schedule.unrolled(minibatches), schedule.num_stages(),
                         minibatches * schedule.num_microbatches(), request)
          : worker_spans(schedule.sections().body, schedule.num_stages(),
                         schedule.num_microbatches(), request);
  PIPEWRIGHT_CHECK(spans.has_value(), "a valid schedule deadlocks");
  return *std::move(spans);
}

Seconds schedule_makespan(const Schedule& schedule,
                          const ScheduleRequest& request) {
  Seconds end;
  for (const WorkerSpan& span : worker_spans(schedule, request))
    end = std::max(end, span.end);
  return end;
}

int peak_activations(const Schedule& schedule, WorkerId worker) {
  int held = 0, peak = 0;
  for (const Orders* section :
       {&schedule.sections().prologue, &schedule.sections().body,
        &schedule.sections().epilogue}) {
    if (section->empty()) continue;
    for (const ComputeAction& action : (*section)[worker.index()]) {
      if (action.kind == ComputeKind::Forward) ++held;
      if (action.kind == ComputeKind::Backward ||
          action.kind == ComputeKind::BackwardWeight)
        --held;
      peak = std::max(peak, held);
    }
  }
  return peak;
}

}  // namespace pipewright
