// What a plan promised beside what a run did.

#pragma once

#include <string>

#include "pipewright/base/json.h"
#include "pipewright/base/result.h"
#include "pipewright/plan/plan.h"
#include "pipewright/plan/program/program.h"
#include "pipewright/profile/profile.h"
#include "pipewright/runtime/training/trainer.h"
#include "pipewright/simulate/in_process_costs.h"
#include "pipewright/timeline/timeline.h"

namespace pipewright::cli {

// The program on cores of this machine, its workers threads of one process.
Result<Timeline> predicted_timeline(const Program& program,
                                    const Profile& profile,
                                    const InProcessChannelCosts& channel);

// A table: step time, busy time of each worker, bubble, memory; predicted,
// measured, and the error in percent.
std::string comparison_text(const Timeline& predicted,
                            const TrainReport& measured, int width);
Json comparison_json(const Timeline& predicted, const TrainReport& measured);

}  // namespace pipewright::cli
