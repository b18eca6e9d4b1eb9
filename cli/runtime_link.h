// What commands ask of the runtime, answered by with_runtime.cc or, in a build
// without LibTorch, by no_runtime.cc.

#pragma once

#include <functional>
#include <span>

#include "pipewright/base/result.h"
#include "pipewright/model/model.h"
#include "pipewright/profile/profile.h"

namespace pipewright::cli {

// Fails with BadConfiguration where nothing can be measured.
Result<Profile> measure_profile(const Model& model,
                                std::span<const int> microbatches,
                                std::function<void(double share)> progress);

}  // namespace pipewright::cli
