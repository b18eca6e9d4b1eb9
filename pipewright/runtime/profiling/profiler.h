// What each layer of a model costs on this machine, measured where it will be
// used: inside workers that train the model as a pipeline, all at once. So a
// figure holds what the layer's own kernels take, with caches as other layers
// leave them, with memory shared with the other workers, and with what a worker
// does around a layer. No LibTorch type is seen from outside.

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
  // Workers that compute at once, each a run of layers; no more than layers.
  int workers = 1;
  std::function<void(double share)> progress;  // may be empty
};

// Times of device kind "cpu" at each size; sizes come from the model. The
// update is that of sgd with momentum. The origin gives machine, spread, the
// latency of the in-process channel, and each noisy figure by name. Fails with
// BadConfiguration for a size or a number of workers below 1, or as running the
// model does.
Result<Profile> measured_profile(const Model& model,
                                 std::span<const int> microbatches,
                                 const ProfilerOptions& options = {});

// One repeated measurement: how long `work` takes.
struct Sample {
  Seconds median;
  // Of all within twice the median: what many in a row take, each; beyond lies
  // what interrupted them.
  Seconds mean;
  double spread = 0;  // upper less lower quartile, over the median
};
Sample summary(std::vector<Seconds> times);
// Warms up, then measures until the budget is spent, at least 5 and at most 200
// times.
Sample measured(const std::function<void()>& work, Seconds budget);

// From the send of one worker to another worker that waits for it.
Sample channel_latency(Seconds budget);
// Bytes of gradients that a worker adds up per second, of two.
double reduction_rate(Seconds budget);

}  // namespace pipewright
