// A pipeline that was run to be measured: its plan, and when its workers did
// what.

#pragma once

#include "pipewright/model/model.h"
#include "pipewright/plan/optimizer_choice.h"
#include "pipewright/plan/plan.h"
#include "pipewright/timeline/timeline.h"

namespace pipewright {

struct PipelineRun {
  Plan plan;
  Timeline timeline;  // of several steps, one after the other
  OptimizerChoice optimizer = {};
};

// The stages of a plan, to run a pipeline of them: where each worker has one,
// and keeps what it computes; else none.
std::vector<Stage> stages_at_once(const Plan& plan);

// Whether actions of the model's pipeline on cores are so short that what is
// done beside their layers counts: under a tenth of a second or so.
bool has_short_actions(const Model& model, int microbatch, int workers);

// Time between the ends of two steps.
Seconds step_period(const Timeline& timeline);

}  // namespace pipewright
