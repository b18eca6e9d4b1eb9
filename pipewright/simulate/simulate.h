// Program + costs -> Timeline: executes the actions as program.h describes
// them, on a clock. Knows no planner, schedule or method by name.
//
// Reading order: costs.h (what things take), engine/ (the program compiled to
// flat arrays, and its execution), links/ (who waits for whom between workers),
// history/ (spans and memory, from what the engine recorded), steady_state.h.
//
// Words of this folder, beside those of docs/glossary.md:
//   transfer  what a program sends from one worker to another, repeatedly
//   message   one instance of a transfer: of one microbatch, or of one version
//             of weights. A reduction of one minibatch is carried like one
//   key       which message it is: its microbatch, version or minibatch
//   channel   the transfers of one kind from one worker to another; their
//             messages start in the order of the sends
//   link      carries one message at a time: one direction between two workers,
//             or both if it is half duplex. Workers that sum gradients have one
//             for their reductions, which so follow each other
//   pool      bandwidth that several links share: one direction of a shared
//             resource of the cluster
//   stream    of a message: start while the work that makes it is being done
//   op, need  an action as the engine executes it, and what it waits for

#pragma once

#include "pipewright/plan/program/program.h"
#include "pipewright/simulate/costs.h"
#include "pipewright/timeline/timeline.h"

namespace pipewright {

struct SimulateOptions {
  int minibatches = 0;     // 0: one, or as many as show the steady state
  bool keep_spans = true;  // off for planners: only the summaries
  bool track_memory = true;
};

// The program must have passed validate().
Timeline simulate(const Program& program, const Costs& costs,
                  const SimulateOptions& options = {});

}  // namespace pipewright
