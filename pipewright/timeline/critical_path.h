// The critical path of a run: the chain of actions and transfers, each waiting
// for the one before, from the start of the run to its end. Making anything
// else faster does not make the run faster.

#pragma once

#include <string>
#include <vector>

#include "pipewright/plan/program/program.h"
#include "pipewright/timeline/timeline.h"

namespace pipewright {

struct PathPiece {
  enum class Kind {
    Compute,  // of `stage` on `worker`, a step included
    Link,     // a transfer from `worker` to `to`, in progress or queued
    Reduce,   // an all-reduce that `worker` waits for
    Other,    // not shown in the timeline
  };
  Kind kind = Kind::Other;
  WorkerId worker, to;
  StageId stage;
  Seconds start, end;
};

// In the order of time, without gaps, from 0 to the end. If two causes of a
// wait end at the same time, the worker's own work counts. Needs spans.
std::vector<PathPiece> critical_path(const Program& program,
                                     const Timeline& timeline);

}  // namespace pipewright
