// A schedule as a program on the clock, for `pipewright schedule`, where there
// is no model and no cluster: one made-up layer a stage, whose activation is
// one byte, so that bytes of memory count activations; no weights; links that
// carry anything at once and a fixed time late.

#pragma once

#include "pipewright/plan/program/program.h"
#include "pipewright/schedules/generator.h"
#include "pipewright/simulate/simulate.h"

namespace pipewright::cli {

struct TimedSchedule {
  Program program;
  Costs costs;
};

// request.times has one entry per stage. A schedule that is valid may still be
// refused: replicas that take turns unevenly in an asynchronous one.
Result<TimedSchedule> timed_schedule(const Schedule& schedule,
                                     const ScheduleRequest& request);

}  // namespace pipewright::cli
