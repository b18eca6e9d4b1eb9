// A plan file with its cluster and costs, lowered and validated: what
// `simulate` and `validate --cluster` start from.

#pragma once

#include <string>

#include "pipewright/cluster/cluster.h"
#include "pipewright/plan/plan.h"
#include "pipewright/plan/program/program.h"
#include "pipewright/plan/validation/validate.h"
#include "pipewright/profile/profile.h"

namespace pipewright::cli {

struct PlanInputs {
  std::string profile;  // file; "": costs are estimated
  std::string model;    // MODEL; "": the plan's
  std::string cluster;
};

struct LoweredPlan {
  Plan plan;
  Cluster cluster;
  Profile profile;
  Program program;
  ProgramFacts facts;
};

// Every worker's device is in the cluster. Errors name the file; a file of
// another system is named with the command that reads it, with or without a
// cluster.
Result<LoweredPlan> load_lowered(const std::string& plan_file,
                                 const PlanInputs& inputs);

// The plan's model in the plan's number type: its costs are estimated.
std::string estimated_model(const Plan& plan);

// The error with the file that it is about before where it is in there.
Error in_file(const std::string& file, Error error);

}  // namespace pipewright::cli
