// Where a run of training stops for a moment: to write a checkpoint, to
// evaluate, to answer a signal, to end. Counts steps and nothing else.

#pragma once

#include <cstdint>
#include <optional>

#include "pipewright/base/units.h"

namespace pipewright {

struct Milestones {
  std::int64_t total = 0;             // steps of the run
  std::int64_t checkpoint_every = 0;  // 0: never before the end
  bool evaluates = false;
  std::int64_t evaluate_every = 0;  // 0: when an epoch has been seen
  std::int64_t samples = 1;         // of an epoch
  std::int64_t minibatch = 1;
  // Steps that fill and drain the pipeline; 0 where every step does.
  std::int64_t outside = 0;
  // Steps at the start that fill nothing, after which one stops.
  std::int64_t warm_up = 0;

  // Steps to go from `done` until the next stop. `step` is how long one takes,
  // if that is known: pieces that fill nothing stop for signals, too.
  std::int64_t piece(std::int64_t done, std::optional<Seconds> step) const;

  // Whether one of a sort lies behind `before`, and at or before `done`.
  bool passes_checkpoint(std::int64_t before, std::int64_t done) const;
  bool passes_evaluation(std::int64_t before, std::int64_t done) const;

 private:
  std::int64_t next_evaluation(std::int64_t done) const;
};

}  // namespace pipewright
