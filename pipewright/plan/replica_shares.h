// Samples for unequal devices: replicas that split each microbatch get shares
// in proportion to their speed, so that they finish together. For planners and
// commands; lowering, simulator and runtime only see sample ranges.

#pragma once

#include <functional>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/base/units.h"
#include "pipewright/cluster/cluster.h"
#include "pipewright/plan/plan.h"
#include "pipewright/profile/profile.h"

namespace pipewright {

// How many samples each device gets, at least one each, so that the last of
// them finishes as early as it can. `time` says how long a device takes for a
// number of samples; it does not fall as the number grows. There are at least
// as many samples as devices.
using TimeOfSamples = std::function<Seconds(int device, int samples)>;
std::vector<int> fastest_shares(int samples, int devices,
                                const TimeOfSamples& time);

// The plan with such shares, by the times of a profile, in every stage with
// replicas of different kinds that split microbatches. Stages on the same
// workers get the same shares. Stages stay as they are that share some of their
// workers with others. Fails if the profile lacks a kind's times.
Result<Plan> with_shares(const Plan& plan, const Profile& profile,
                         const Cluster& cluster);

}  // namespace pipewright
