// How long a schedule takes and how much it holds, from times per stage alone.
//
// For searches over orders and for the tests of closed forms: one longest path
// over the compute actions, linear in their number. Knows no link but the one
// transfer time of the request, no memory but counted activations; simulate()
// is the clock that knows them.

#pragma once

#include <optional>
#include <vector>

#include "pipewright/base/units.h"
#include "pipewright/plan/schedule/schedule.h"
#include "pipewright/schedules/generator.h"

namespace pipewright {

struct WorkerSpan {
  Seconds start;  // of its first action
  Seconds end;    // of its last
};

// When each worker begins and ends. Every action starts as soon as its worker
// is free and its inputs are there; a value that crosses workers is
// request.transfer late; joined actions start together and take the time of
// both. B takes I + W, R takes F. An empty list of times means 1 each, else
// there is one per stage. Of an asynchronous schedule: prologue, and epilogue
// with as many repetitions as make whole minibatches.
// Nothing when the orders wait for each other (no valid Schedule does).
std::optional<std::vector<WorkerSpan>> worker_spans(
    const Orders& orders, int num_stages, int num_microbatches,
    const ScheduleRequest& request);
std::vector<WorkerSpan> worker_spans(const Schedule& schedule,
                                     const ScheduleRequest& request);

// From the first start to the last end.
Seconds schedule_makespan(const Schedule& schedule,
                          const ScheduleRequest& request);

// The longest time any one worker needs from its first start to its last end:
// the time between steps when workers go on to the next minibatch without
// waiting for each other. The zero-bubble papers measure this one.
Seconds schedule_longest_span(const Schedule& schedule,
                              const ScheduleRequest& request);

// The most (stage, microbatch) activations `worker` holds at once over all its
// stages: from F to B or W.
int peak_activations(const Schedule& schedule, WorkerId worker);

}  // namespace pipewright
