// How long a schedule takes and how many activations it holds, from the times
// of stages alone.
//
// For schedule generators and for tests of closed forms: one longest path over
// the compute actions, linear in their number. Links have one transfer time,
// and memory is a number of activations; simulate() knows more.

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

// When each worker starts and ends. Every action starts as soon as its worker
// is free and its inputs have arrived; a value arrives on another worker after
// request.transfer; joined actions start together and take the time of both. B
// takes I + W, R takes F. Without times each of F, I and W takes 1; otherwise
// there is one entry per stage. Of an asynchronous schedule the prologue and
// the epilogue, with as many repetitions as make whole minibatches.
// None if the orders deadlock (a valid Schedule does not).
std::optional<std::vector<WorkerSpan>> worker_spans(
    const Orders& orders, int num_stages, int num_microbatches,
    const ScheduleRequest& request);
std::vector<WorkerSpan> worker_spans(const Schedule& schedule,
                                     const ScheduleRequest& request);

// From the first start to the last end.
Seconds schedule_makespan(const Schedule& schedule,
                          const ScheduleRequest& request);

// The largest number of activations that `worker` holds at once, one per stage
// and microbatch from F to B or W.
int peak_activations(const Schedule& schedule, WorkerId worker);

}  // namespace pipewright
