// What bounds a step: the chain of actions and transfers, each waiting for the
// one before, that reaches from the start of a run to its end. Shortening
// anything else changes nothing.

#pragma once

#include <string>
#include <vector>

#include "pipewright/plan/program/program.h"
#include "pipewright/timeline/timeline.h"

namespace pipewright {

struct PathPiece {
  enum class Kind {
    Compute,  // of `stage` on `worker`, a step included
    Link,     // a transfer from `worker` to `to`, on its way or in the queue
    Reduce,   // an all-reduce that `worker` waits for
    Other,    // nothing that the timeline shows
  };
  Kind kind = Kind::Other;
  WorkerId worker, to;
  StageId stage;
  Seconds start, end;
};

// In the order of time, without gaps from 0 to the end. Of two reasons to wait
// that end together, the worker's own work counts. Needs spans.
std::vector<PathPiece> critical_path(const Program& program,
                                     const Timeline& timeline);

// "stage 3 is the bottleneck: 71 % of the step; 12 % waits for link 2 to 3".
std::string bottleneck_text(const std::vector<PathPiece>& path);

// A table of busy, waiting for links and otherwise idle, as shares of the run,
// and the memory peak with what it consists of, one line a worker.
std::string workers_text(const Timeline& timeline, int width = 100);

}  // namespace pipewright
