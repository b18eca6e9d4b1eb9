// The profile of a model with split layers, from a profile of the whole model:
// so that a measured profile serves for both.
//
// A part takes the share of the whole layer's time that it has of its outputs,
// a join what analytic.h estimates, every other layer what it took. If the
// given profile is an estimate that analytic.h repeats, the new one is its
// estimate of the model with parts: there a part reads the whole input.

#pragma once

#include <span>
#include <string>

#include "pipewright/cluster/cluster.h"
#include "pipewright/model/model.h"
#include "pipewright/profile/profile.h"

namespace pipewright {

// Whether it has the model's layers.
bool is_profile_of(const Profile& profile, const Model& model);

// `model` is the model of the profile with layers split ("split=...",
// split_layers.h). A profile that has these layers already, and one of any
// other model, stays as it is. The result has tables for `kinds` only. Fails as
// analytic_profile() does.
Result<Profile> with_splits(Profile profile, const std::string& model,
                            std::span<const DeviceKind> kinds);

}  // namespace pipewright
