// A plan file with the cluster and the costs it is to be judged by, lowered and
// validated: what `simulate` and `validate --cluster` begin with.

#pragma once

#include <string>

#include "pipewright/cluster/cluster.h"
#include "pipewright/plan/plan.h"
#include "pipewright/plan/program/program.h"
#include "pipewright/plan/validation/validate.h"
#include "pipewright/profile/profile.h"

namespace pipewright::cli {

struct PlanInputs {
  std::string profile;  // file; "": estimated
  std::string model;    // as on the command line; "": the plan's
  std::string cluster;
};

struct LoweredPlan {
  Plan plan;
  Cluster cluster;
  Profile profile;
  Program program;
  ProgramFacts facts;
};

Result<LoweredPlan> load_lowered(const std::string& plan_file,
                                 const PlanInputs& inputs);

}  // namespace pipewright::cli
