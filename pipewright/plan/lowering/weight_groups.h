// Weights by where their forward and backward are, and the reductions of their
// gradients before a step.

#pragma once

#include <vector>

#include "pipewright/plan/lowering/homes.h"
#include "pipewright/plan/plan.h"
#include "pipewright/plan/program/program.h"

namespace pipewright {

struct WeightGroups {
  std::vector<WeightGroup> groups;
  // Indices into groups by stage; a stage's own group comes first.
  std::vector<std::vector<WeightGroupId>> of_forward, of_owner;
};
WeightGroups weight_groups_of(const Plan& plan, const Profile& profile,
                              const Homes& homes);

// New versions, from an owner to each worker that only reads them.
std::vector<Transfer> weight_transfers_of(const Plan& plan,
                                          const WeightGroups& groups);

// Over the replicas of each stage, and over the stages that share a parameter.
std::vector<Reduction> reductions_of(const Plan& plan, const Profile& profile,
                                     const Homes& homes);

// The norm over all of a model's gradients, once those reductions are done.
Reduction norm_of(const Plan& plan, const Profile& profile, const Homes& homes,
                  const std::vector<Reduction>& of_gradients);

// Counts, for every worker, how many versions of a group it must hold at once,
// from its actions in the run.
void set_held_weights(Program& program,
                      const std::vector<std::vector<Action>>& actions);

}  // namespace pipewright
