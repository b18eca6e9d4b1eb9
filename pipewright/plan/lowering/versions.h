// Which version of its weights every action reads: the only place that knows
// what a method is called.
//
// A stage is at version v after v of its minibatches have given all their
// weight gradients. "The newest" at an action is the count of those before it
// in its worker's order, so it depends on the schedule and never on timing.

#pragma once

#include <cstdint>
#include <vector>

#include "pipewright/base/ids.h"
#include "pipewright/plan/method.h"
#include "pipewright/plan/program/program.h"
#include "pipewright/plan/schedule/schedule.h"

namespace pipewright {

// Minibatches finished at a stage when it starts the forward, the recompute and
// the backward of each microbatch: [stage][microbatch of the run].
struct Progress {
  std::vector<std::vector<std::int32_t>> forward, recompute, backward;
};
Progress progress_of(const Orders& orders, int num_stages, int num_microbatches,
                     int minibatches);

class Versions {
 public:
  Versions(Method method, Progress progress, int num_microbatches);

  std::int32_t read(ComputeKind kind, const WeightGroup& group,
                    MicrobatchId microbatch) const;

  // A stage whose forward would read a version that is not made by then, if
  // any.
  StageId too_early() const;

  // Averages over one minibatch.
  StageDelay delay(const WeightGroup& group, std::int32_t minibatch) const;

 private:
  std::int32_t forward(const WeightGroup& group, MicrobatchId m) const;

  Method method_;
  Progress progress_;
  std::int32_t num_microbatches_;
};

}  // namespace pipewright
