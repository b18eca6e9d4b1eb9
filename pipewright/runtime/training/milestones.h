// The steps at which a training pauses: to write a checkpoint, to evaluate, to
// react to a signal, to end. A piece is what runs between two pauses.

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
  // Minibatches that fill and drain the pipeline; 0 if every step does both.
  std::int64_t outside = 0;
  // Synchronous steps at the start, after which training pauses.
  std::int64_t warm_up = 0;

  // Steps from `done` to the next pause. `step` is how long one takes, if that
  // is known: synchronous pieces are kept short, to react to signals, but long
  // enough that what a piece takes `around` its steps hardly counts.
  std::int64_t piece(std::int64_t done, std::optional<Seconds> step,
                     Seconds around = Seconds()) const;

  // Whether there is one after `before`, at or before `done`.
  bool passes_checkpoint(std::int64_t before, std::int64_t done) const;
  bool passes_evaluation(std::int64_t before, std::int64_t done) const;

 private:
  std::int64_t next_evaluation(std::int64_t done) const;
};

}  // namespace pipewright
