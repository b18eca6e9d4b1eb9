// Predicts a run before it begins, so that who watches it sees both.

#pragma once

#include <optional>

#include "pipewright/base/result.h"
#include "pipewright/model/model.h"
#include "pipewright/profile/profile.h"
#include "pipewright/runtime/training/train_request.h"
#include "pipewright/timeline/pipeline_run.h"
#include "pipewright/timeline/timeline.h"

namespace pipewright::cli {

// Costs are those of the given profile, or measured here at the microbatch
// sizes that workers compute; what an action costs beside them is that of
// `handovers`, or measured in threads. Leaves in the run folder what `report`
// and `serve` show beside the run: profile.json, cluster.json (this machine as
// the prediction sees it) and predicted.json; a file that cannot be written is
// a warning. Fails with BadConfiguration if the plan names several kinds of
// devices, or as measuring does.
Result<Timeline> predict_run(const TrainRequest& request, const Model& model,
                             const std::optional<Profile>& given,
                             const std::optional<PipelineRun>& handovers = {});

}  // namespace pipewright::cli
