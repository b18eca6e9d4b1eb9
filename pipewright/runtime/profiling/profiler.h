// What each layer of a model costs on this machine, measured as it will be
// used: in workers that train the model as a pipeline, all at the same time. So
// a time includes the layer's kernels, with caches as other layers leave them
// and memory shared with the other workers, and what a worker does around a
// layer. No LibTorch type is seen from outside.

#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/base/units.h"
#include "pipewright/model/model.h"
#include "pipewright/plan/optimizer_choice.h"
#include "pipewright/plan/plan.h"
#include "pipewright/profile/profile.h"
#include "pipewright/timeline/pipeline_run.h"

namespace pipewright {

struct ProfilerOptions {
  // For all times together; each is measured at least a few times.
  Seconds budget{12};
  // A time is noisy if its quartiles are further apart than this share of its
  // median; the profile's origin names it.
  double max_spread = 0.25;
  // Workers that compute at once, each some consecutive layers; at most one per
  // layer.
  int workers = 1;
  // Of a pipeline that is run as it is, one for each worker. None: stages of
  // about equal work.
  std::vector<Stage> stages = {};
  // The kind of device that each worker has; see device_registry.h.
  std::string device = "cpu";
  // Whether devices that can are given actions as recordings, as in training.
  bool may_record = true;
  // Whose update is measured: that of the training the profile is for.
  OptimizerChoice optimizer = {};
  std::function<void(double share)> progress;  // may be empty
};

// Times of options.device at each microbatch size; sizes in bytes come from
// the model. The origin describes the measurement and names each noisy time.
// Fails with BadConfiguration for a size or a number of workers below 1, or as
// running the model and make_optimizer() do.
Result<Profile> measured_profile(const Model& model,
                                 std::span<const int> microbatches,
                                 const ProfilerOptions& options = {});

// Steps of a pipeline whose layers are not timed: what a run takes beside its
// layers, and what workers at once take. A stage for each worker, in 1F1B
// order; a typical run of several. Fails as measured_profile() does.
Result<PipelineRun> measured_pipeline(const Model& model, int microbatch,
                                      const ProfilerOptions& options);

// One repeated measurement: how long `work` takes.
struct Sample {
  Seconds median;
  // Of the times within twice the median: longer ones were interrupted.
  Seconds mean;
  double spread = 0;  // upper minus lower quartile, divided by the median
};
Sample summary(std::vector<Seconds> times);
// Warms up, then measures until the budget is spent, at least 5 and at most 200
// times.
Sample measured(const std::function<void()>& work, Seconds budget);

// From a worker's send to the return of take() of the worker that waits.
Sample channel_latency(Seconds budget);
// Bytes per second at which a worker adds two gradients.
double reduction_rate(Seconds budget);

}  // namespace pipewright
