// Where a worker is in a run: for messages to people.

#pragma once

#include <cstdint>
#include <string>

#include "pipewright/base/ids.h"
#include "pipewright/plan/program/program.h"

namespace pipewright {

// An action of a worker, with the step counted from 1 and the microbatch within
// that step.
struct Place {
  WorkerId worker;
  StageId stage;
  ActionKind kind = ActionKind::Forward;
  std::int64_t step = 0;
  std::int64_t microbatch = 0;
};
// `microbatch` counts from the start of training.
Place place_of(WorkerId worker, const Action& action, std::int64_t microbatch,
               int num_microbatches);

// "step 5, stage 1, backward of microbatch 3"; with the worker "step 5, worker
// 1, stage 1, ...".
std::string to_text(const Place& place);
std::string text_with_worker(const Place& place);

}  // namespace pipewright
