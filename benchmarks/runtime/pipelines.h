// Models, plans and runs that the benchmarks of the runtime share.

#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/plan/lowering/lower.h"
#include "pipewright/plan/plan.h"
#include "pipewright/profile/profile.h"
#include "pipewright/runtime/execution/executor.h"
#include "pipewright/schedules/generator.h"

namespace pipewright::bench {

// The value; throws the error's text.
template <typename T>
T checked(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().to_text());
  return *std::move(result);
}

// Blocks x + W2 gelu(W1 x) with four times the width between, and a squared
// error.
Model residual_blocks(int width, int blocks);

// Layers in runs over the schedule's stages, so that the slowest stage is as
// fast as it can be; a stage is on the workers that run it. Throws on what
// cannot be.
Plan balanced_plan(const Model& model, const Profile& profile,
                   const Schedule& schedule, int microbatch);

// The same with as many layers on each stage.
Plan even_plan(const Model& model, const Schedule& schedule, int microbatch);

// By name; times are the mean stage's, for generators that search.
Schedule schedule_for(const std::string& name, const Profile& profile,
                      int workers, int microbatches, int microbatch);

// The same random samples for every microbatch: nothing is drawn while time is
// taken.
MicrobatchSource steady_source(const Model& model, int microbatch);

TrainingSettings plain_sgd();
TrainingSettings momentum_sgd();

// Seconds per step: the median of `runs` runs of `steps` each, after one.
Seconds step_time(Executor& executor, const MicrobatchSource& source, int steps,
                  int runs);

}  // namespace pipewright::bench
