// A schedule as a program with costs, for `pipewright schedule`, which has no
// model and no cluster. Each stage is one artificial layer whose activation is
// one byte, so that bytes of memory count activations; there are no weights;
// every transfer takes the same time.

#pragma once

#include "pipewright/plan/program/program.h"
#include "pipewright/schedules/generator.h"
#include "pipewright/simulate/simulate.h"

namespace pipewright::cli {

struct TimedSchedule {
  Program program;
  Costs costs;
};

// request.times has one entry per stage. Fails for some valid schedules: if
// replicas take turns unevenly in an asynchronous one.
Result<TimedSchedule> timed_schedule(const Schedule& schedule,
                                     const ScheduleRequest& request);

// An asynchronous schedule runs for as many minibatches as it takes to show
// filling, steady state and draining.
Timeline timeline_of(const Schedule& schedule, const TimedSchedule& timed);

}  // namespace pipewright::cli
