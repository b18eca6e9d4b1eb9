// Asynchronous 1F1B in which a stage runs `lead` microbatches ahead for each
// stage after it. For async-1f1b and async-1f1b-so.

#pragma once

#include "pipewright/base/result.h"
#include "pipewright/plan/schedule/schedule.h"
#include "pipewright/schedules/generator.h"

namespace pipewright {

// Stage i of p (from 1) is lead * (p - i) microbatches ahead of its backward.
// Prologue and epilogue together complete ceil(lead * (p - 1) / M) minibatches.
Result<Schedule> async_with_lead(const ScheduleRequest& request, int lead);

}  // namespace pipewright
