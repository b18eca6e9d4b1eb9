// What a training goes on with when its devices have changed: `train --elastic`
// trains it, `rehearse` shows it.

#pragma once

#include <string>

#include "pipewright/base/result.h"
#include "pipewright/base/units.h"
#include "pipewright/cluster/cluster.h"
#include "pipewright/plan/plan.h"

namespace pipewright::cli {

struct ReplanningOptions {
  std::string profile;  // file; "": costs are estimated
  double budget = 0.5;  // seconds; more where nothing is found in them
};

struct Replanned {
  Plan plan;         // worker i on device i of the cluster, idle ones too
  Seconds step;      // as simulated
  Seconds planning;  // what it took
  bool keeps_microbatch = false;
  bool keeps_bits = false;  // training goes on to the same weights
};

// A plan for the same model, minibatch and method on another cluster. If the
// plan before has no replicas, the microbatch stays if a plan with it fits, and
// where it stays and training is synchronous, the new plan has no replicas
// either if such a plan fits.
// Fails with BadConfiguration if nothing fits.
Result<Replanned> replanned(const Plan& before, const Cluster& cluster,
                            const ReplanningOptions& options);

}  // namespace pipewright::cli
