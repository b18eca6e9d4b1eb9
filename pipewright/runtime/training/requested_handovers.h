// What handing over between ranks costs is measured before the first step, by a
// pipeline of the model (handovers.h): whether a request asks for it, and how.

#pragma once

#include "pipewright/model/model.h"
#include "pipewright/runtime/profiling/handovers.h"
#include "pipewright/runtime/training/train_request.h"

namespace pipewright {

// Not where a fault is injected: faults are counted in the steps of the run.
bool wants_handovers(const Model& model, const TrainRequest& request);

// On GPUs with the plan's own stages, as they are measured in one process.
HandoverPipeline requested_handovers(const Model& model,
                                     const TrainRequest& request);

}  // namespace pipewright
