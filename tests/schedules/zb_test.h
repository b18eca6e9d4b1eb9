// What the zero-bubble tests share: a schedule by name, with equal stages.

#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "pipewright/schedules/makespan.h"

namespace pipewright {

struct EqualStages {
  double forward = 1, input = 1, weight = 1;
};

inline Schedule generated(const std::string& name, int workers,
                          int microbatches) {
  ScheduleRequest request;
  request.workers = workers;
  request.microbatches = microbatches;
  Result<Schedule> schedule = generate_schedule(name, request);
  if (!schedule) FAIL(schedule.error().to_text());
  return *std::move(schedule);
}

// The longest time of one worker from its first start to its last end: the time
// between steps if workers start the next minibatch without waiting for each
// other. The zero-bubble papers measure it.
inline Seconds longest_span(const Schedule& schedule,
                            const ScheduleRequest& request) {
  Seconds longest;
  for (const WorkerSpan& span : worker_spans(schedule, request))
    longest = std::max(longest, span.end - span.start);
  return longest;
}

// The time in addition to a worker's work: `longest` of one worker from its
// first action to its last, `makespan` from the first start to the last end.
struct Bubble {
  double longest, makespan;
};

inline Bubble bubble(const Schedule& schedule, EqualStages t = {}) {
  ScheduleRequest request;
  request.times.assign(
      static_cast<std::size_t>(schedule.num_stages()),
      {Seconds(t.forward), Seconds(t.input), Seconds(t.weight)});
  const int stages = schedule.num_stages() / schedule.num_workers();
  const double work =
      schedule.num_microbatches() * stages * (t.forward + t.input + t.weight);
  return {longest_span(schedule, request).value() - work,
          schedule_makespan(schedule, request).value() - work};
}

inline int max_activations(const Schedule& schedule) {
  int largest = 0;
  for (int w = 0; w < schedule.num_workers(); ++w)
    largest = std::max(largest, peak_activations(schedule, WorkerId(w)));
  return largest;
}

}  // namespace pipewright
