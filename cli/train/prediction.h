// The predicted timeline of a run, and a comparison with the measured one.

#pragma once

#include <string>

#include "pipewright/base/json.h"
#include "pipewright/base/result.h"
#include "pipewright/model/model.h"
#include "pipewright/plan/plan.h"
#include "pipewright/plan/program/program.h"
#include "pipewright/profile/profile.h"
#include "pipewright/runtime/training/trainer.h"
#include "pipewright/simulate/run_overheads.h"
#include "pipewright/timeline/timeline.h"

namespace pipewright::cli {

// Reads a profile for the prediction of this program. Fails with MissingInput
// or MalformedInput, or with BadConfiguration if it is of another model or has
// no times of that kind of device.
Result<Profile> profile_of(const std::string& file, const Model& model,
                           const Program& program, const std::string& device);

// Of the program on this machine, with workers as threads, by the profile's
// times of that kind of device. Fails with BadConfiguration if it has none.
Result<Timeline> predicted_timeline(const Program& program,
                                    const Profile& profile,
                                    const std::string& device,
                                    const InProcessChannelCosts& channel,
                                    const RunOverheads& overheads = {});

// A table with step time, busy time of each worker, bubble and memory:
// predicted, measured, and the error in percent, or in points for the bubble.
// What the process takes beside its workers' tensors is measured only.
std::string comparison_text(const Timeline& predicted,
                            const TrainReport& measured, int width);
Json comparison_json(const Timeline& predicted, const TrainReport& measured);

}  // namespace pipewright::cli
