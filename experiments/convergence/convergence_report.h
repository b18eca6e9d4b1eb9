// Arms side by side: what came out of several seeds, what it costs, and how
// long it took to be as good as synchronous training.

#pragma once

#include <string>
#include <vector>

#include "experiments/convergence/convergence_study.h"

namespace pipewright {

// Steps until the smoothed loss is down to `target`, the mean over seeds;
// negative where a seed does not get there.
double steps_to(const ArmResult& result, double target);

// The loss that synchronous training ends with, and a twentieth of the one it
// begins with: noise is below that.
double synchronous_level(const ArmResult& sync);

// What each arm's rates and K came to.
std::string trials_text(const std::vector<ArmResult>& results);
// The table, and a sentence for each claim of the paper: what holds here.
std::string report_text(const Task& task,
                        const std::vector<ArmResult>& results);
std::string verdict_text(const Task& task,
                         const std::vector<ArmResult>& results);

// The picture of the arms at one depth.
std::string plot_text(const Task& task, const std::vector<ArmResult>& results,
                      int depth);

}  // namespace pipewright
