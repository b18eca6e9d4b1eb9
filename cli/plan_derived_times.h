// Which layer times of a prediction were not measured at the sizes of its plan
// (derived_times.h), for the commands that print one.

#pragma once

#include <string>
#include <vector>

#include "pipewright/base/json.h"
#include "pipewright/cluster/cluster.h"
#include "pipewright/plan/program/program.h"
#include "pipewright/profile/derived_times.h"

namespace pipewright::cli {

// Replicas that split a microbatch have parts of it.
std::vector<DerivedTimes> plan_derived_times(const Program& program,
                                             const Profile& profile,
                                             const Cluster& cluster);

// In a line of its own; empty where all were measured.
std::string derived_line(const std::vector<DerivedTimes>& derived);

// A list of kind, microbatch and the sizes that its times are from.
Json to_json(const std::vector<DerivedTimes>& derived);

}  // namespace pipewright::cli
