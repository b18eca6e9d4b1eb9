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

inline Schedule made(const std::string& name, int workers, int microbatches) {
  ScheduleRequest request;
  request.workers = workers;
  request.microbatches = microbatches;
  Result<Schedule> schedule = generate_schedule(name, request);
  if (!schedule) FAIL(schedule.error().to_text());
  return *std::move(schedule);
}

// What each worker needs beyond its work: `longest` of one worker from its
// first action to its last, `makespan` from the first start to the last end.
struct Bubble {
  double longest, makespan;
};

inline Bubble bubble(const Schedule& schedule, EqualStages t = {}) {
  ScheduleRequest request;
  request.times.assign(
      static_cast<std::size_t>(schedule.num_stages()),
      {Seconds(t.forward), Seconds(t.input), Seconds(t.weight)});
  const int chunks = schedule.num_stages() / schedule.num_workers();
  const double work =
      schedule.num_microbatches() * chunks * (t.forward + t.input + t.weight);
  return {schedule_longest_span(schedule, request).value() - work,
          schedule_makespan(schedule, request).value() - work};
}

inline int most_activations(const Schedule& schedule) {
  int most = 0;
  for (int w = 0; w < schedule.num_workers(); ++w)
    most = std::max(most, peak_activations(schedule, WorkerId(w)));
  return most;
}

}  // namespace pipewright
