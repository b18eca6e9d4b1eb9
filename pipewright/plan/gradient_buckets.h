// Gradients that are summed while backward goes on.
//
// A replicated stage sums its gradients over its workers once its last backward
// is done. Cut into several stages on the same workers, it has one sum per
// stage, and each begins when the backward of its layers is done: the others
// compute meanwhile, and the next forward waits for the sums of its own layers
// only. Such a stage is a bucket. Lowering, simulator and runtime know only
// stages; weights have the same bits as without buckets.
//
//   schedule v1 stages=1 microbatches=2     in two buckets:
//   0: 0F0 0B0 0F1 0B1                      0: 0F0 1F0 1B0 0B0 0F1 1F1 1B1 0B1
//   1: 0F0 0B0 0F1 0B1                      1: 0F0 1F0 1B0 0B0 0F1 1F1 1B1 0B1

#pragma once

#include <string>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/base/units.h"
#include "pipewright/plan/plan.h"
#include "pipewright/profile/profile.h"

namespace pipewright {

// The plan with its replicated stages cut into buckets: from the last layer to
// the first, a bucket ends with the layer whose weights bring it to `bucket`
// bytes. Stages stay whole that recompute, whose forward and backward differ,
// or that share their worker's time with another action, as does a plan that
// has buckets already. The schedule keeps its name. Fails as Schedule::create
// does.
Result<Plan> with_buckets(const Plan& plan, const Profile& profile,
                          Bytes bucket);

// The plan before its stages were cut. Fails as Schedule::create does, if a
// person changed the order of a bucket's actions.
Result<Plan> without_buckets(const Plan& plan);

bool has_buckets(const Plan& plan);
// How many sums of gradients its replicated stages make; 0: one per stage.
int num_buckets(const Plan& plan);

// Stages as a person counts them, buckets of one together: of each stage of the
// plan its number in that count, and "1 stage (14 buckets)".
std::vector<StageId> whole_stage_ids(const Plan& plan);
int num_whole_stages(const Plan& plan);
std::string stage_count_text(const Plan& plan);

}  // namespace pipewright
