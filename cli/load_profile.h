// The costs that a command works with: read from a profile file, or estimated
// for a model. For `plan`, `compare`, `simulate` and `validate`.

#pragma once

#include <string>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/cluster/cluster.h"
#include "pipewright/profile/profile.h"

namespace pipewright::cli {

// The profile file, or an estimate for the model on the cluster's device kinds
// at every microbatch size that divides the minibatch. (If replicas split a
// microbatch, sizes in between are interpolated.)
Result<Profile> load_profile(const std::string& file, const std::string& model,
                             const Cluster& cluster, int minibatch);

std::vector<int> divisors(int number);  // ascending

}  // namespace pipewright::cli
