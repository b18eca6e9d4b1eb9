// What most other systems cannot express of a plan, said in one way.

#pragma once

#include <string>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/plan/plan.h"

namespace pipewright::cli {

// Fails with BadConfiguration unless the plan is synchronous and every stage
// runs backward where it ran forward.
Result<void> check_synchronous(const Plan& plan, const std::string& system);

// How many replicas each stage has. Fails with BadConfiguration unless all have
// equally many, which split each microbatch into equal parts.
Result<int> equal_replicas(const Plan& plan, const std::string& system);

// Whether all stages recompute. Fails with BadConfiguration if only some do.
Result<bool> recomputes_everywhere(const Plan& plan, const std::string& system);

// Workers without the further replicas of stages, by their first stage.
int num_pipeline_workers(const Plan& plan);

// The one of these generators that makes the plan's order, replicas and
// recomputation left out; "" if none does.
std::string order_among(const Plan& plan,
                        const std::vector<std::string>& generators);

}  // namespace pipewright::cli
