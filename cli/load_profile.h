// The costs that a command works with: read from a profile file, or estimated
// for a model. For `plan`, `compare`, `simulate` and `validate`.

#pragma once

#include <span>
#include <string>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/cluster/cluster.h"
#include "pipewright/model/model.h"
#include "pipewright/profile/profile.h"

namespace pipewright::cli {

// "gpt2:type=bfloat16". Other text than that of a zoo model, and one that says
// its type, stays.
std::string with_type(const std::string& model, const std::string& type);
// A zoo model that does not say its number type gets one: bfloat16 if all kinds
// have units for it, as "gpt2:type=bfloat16"; otherwise the text stays, which
// is float32. Other text stays.
std::string with_number_type(const std::string& model,
                             std::span<const DeviceKind> kinds);
// "bfloat16": the type of the weights, or "float32" without any.
std::string number_type_of(const Model& model);

// The profile file, or an estimate for the model on the cluster's device kinds
// at every microbatch size that divides the minibatch. (If replicas split a
// microbatch, sizes in between are interpolated.) Estimates are in the type of
// with_number_type().
Result<Profile> load_profile(const std::string& file, const std::string& model,
                             const Cluster& cluster, int minibatch);

std::vector<int> divisors(int number);  // ascending

}  // namespace pipewright::cli
