// What each layer of a model costs on this machine, measured: every layer
// alone, on one thread, with random inputs. No plan, worker or schedule is
// known here, and no LibTorch type is seen from outside.

#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/base/units.h"
#include "pipewright/model/model.h"
#include "pipewright/profile/profile.h"

namespace pipewright {

struct ProfilerOptions {
  // For all figures together; each is measured at least a few times.
  Seconds budget{12};
  // A figure whose middle half spreads over more than this share of its median
  // is not called measured: the profile's origin names it.
  double most_spread = 0.25;
  std::function<void(double share)> progress;  // may be empty
};

// Times of device kind "cpu" at each size; sizes come from the model. The
// update is that of sgd with momentum. The origin gives machine, spread, the
// latency of the in-process channel, and each noisy figure by name. Fails with
// BadConfiguration for a size below 1.
Result<Profile> measured_profile(const Model& model,
                                 std::span<const int> microbatches,
                                 const ProfilerOptions& options = {});

// One repeated measurement: how long `work` takes.
struct Sample {
  Seconds median;
  double spread = 0;  // upper less lower quartile, over the median
};
// Warms up, then measures until the budget is spent, at least 5 and at most 200
// times.
Sample measured(const std::function<void()>& work, Seconds budget);

// From the send of one worker to another worker that waits for it.
Sample channel_latency(Seconds budget);

}  // namespace pipewright
