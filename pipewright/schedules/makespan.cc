#include "pipewright/schedules/makespan.h"

#include <algorithm>
#include <cstdint>

#include "pipewright/base/check.h"

namespace pipewright {
namespace {

bool is_forward(ComputeKind kind) { return kind == ComputeKind::Forward; }

// Runs every worker as far as it can go; a worker that lacks an input sleeps on
// it and is woken by the action that makes it. So each action is looked at a
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
        values_(2 * static_cast<std::size_t>(num_stages) *
                static_cast<std::size_t>(num_microbatches)),
        sleeper_after_(orders.size(), -1) {
    if (times_.empty()) times_.resize(static_cast<std::size_t>(num_stages));
    PIPEWRIGHT_CHECK(times_.size() == static_cast<std::size_t>(num_stages),
                     "the request has times for " +
                         std::to_string(times_.size()) + " stages, not " +
                         std::to_string(num_stages));
    for (const auto& order : orders)
      for (const ComputeAction& action : order)
        if (Value* value = made_by(action)) ++value->makers;
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
  struct Value {  // an activation or a gradient, over all who make it
    double ready = 0;
    int makers = 0;  // still to come
    int maker = -1;  // the worker that was last
    int sleeper = -1;
  };

  Value& value_at(bool backward, int stage, int microbatch) {
    return values_[2 * (static_cast<std::size_t>(stage) *
                            static_cast<std::size_t>(num_microbatches_) +
                        static_cast<std::size_t>(microbatch)) +
                   (backward ? 1 : 0)];
  }
  Value* made_by(const ComputeAction& a) {
    if (!is_forward(a.kind) && !starts_backward(a.kind)) return nullptr;
    return &value_at(starts_backward(a.kind), a.stage.value, a.microbatch);
  }
  Value* needed_by(const ComputeAction& a) {
    if (is_forward(a.kind) && a.stage.value > 0)
      return &value_at(false, a.stage.value - 1, a.microbatch);
    if (starts_backward(a.kind) && a.stage.value + 1 < num_stages_)
      return &value_at(true, a.stage.value + 1, a.microbatch);
    return nullptr;
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

  // Does the worker's next action (with those joined to it); false when it has
  // none or must wait.
  bool step(int worker) {
    const auto w = static_cast<std::size_t>(worker);
    const auto& order = orders_[w];
    if (next_[w] == order.size()) return false;
    std::size_t last = next_[w];
    while (order[last].joined && last + 1 < order.size()) ++last;
    double start = clock_[w], length = 0;
    for (std::size_t i = next_[w]; i <= last; ++i) {
      if (Value* value = needed_by(order[i])) {
        if (value->makers > 0) return sleep(worker, *value);
        start = std::max(
            start, value->ready + (value->maker == worker ? 0 : transfer_));
      }
      length += duration(order[i]);
    }
    if (next_[w] == 0) spans_[w].start = Seconds(start);
    clock_[w] = start + length;
    spans_[w].end = Seconds(clock_[w]);
    for (std::size_t i = next_[w]; i <= last; ++i) publish(worker, order[i]);
    next_[w] = last + 1;
    return true;
  }

  bool sleep(int worker, Value& value) {
    sleeper_after_[static_cast<std::size_t>(worker)] = value.sleeper;
    value.sleeper = worker;
    return false;
  }

  void publish(int worker, const ComputeAction& action) {
    Value* value = made_by(action);
    if (value == nullptr) return;
    const double end = clock_[static_cast<std::size_t>(worker)];
    if (value->maker < 0 || end >= value->ready) {
      value->ready = end;
      value->maker = worker;
    }
    if (--value->makers > 0) return;
    for (int s = value->sleeper; s >= 0;
         s = sleeper_after_[static_cast<std::size_t>(s)])
      awake_.push_back(s);
    value->sleeper = -1;
  }

  const Orders& orders_;
  const int num_stages_, num_microbatches_;
  std::vector<ScheduleRequest::StageTimes> times_;
  const double transfer_;
  std::vector<std::size_t> next_;
  std::vector<double> clock_;
  std::vector<WorkerSpan> spans_;
  std::vector<Value> values_;
  std::vector<int> sleeper_after_;  // a list of sleepers hangs on each value
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
  PIPEWRIGHT_CHECK(spans.has_value(), "a valid schedule that cannot go on");
  return *std::move(spans);
}

Seconds schedule_makespan(const Schedule& schedule,
                          const ScheduleRequest& request) {
  Seconds end;
  for (const WorkerSpan& span : worker_spans(schedule, request))
    end = std::max(end, span.end);
  return end;
}

Seconds schedule_longest_span(const Schedule& schedule,
                              const ScheduleRequest& request) {
  Seconds longest;
  for (const WorkerSpan& span : worker_spans(schedule, request))
    longest = std::max(longest, span.end - span.start);
  return longest;
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
