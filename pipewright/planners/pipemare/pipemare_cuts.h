// Cuts a model into a given number of stages, balanced by time, and assigns the
// stages to workers. For PipeMare's planner and experiments.

#pragma once

#include <functional>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/planners/planner.h"

namespace pipewright {

// load(group, first, end) of items first..end-1; grows with `end` and falls
// with `first`.
using GroupLoad = std::function<double(int group, int first, int end)>;

// The ends of consecutive groups of items, none empty, with the smallest
// largest load.
std::vector<int> balanced_groups(int items, int groups, const GroupLoad& load);

struct DeepStages {
  std::vector<int> ends;       // one past the last layer of each stage
  std::vector<int> stages_of;  // number of consecutive stages of each worker
};

// If there are enough layers with weights, each stage has at least one of them.
// Workers are the first devices. Fails with BadConfiguration if there are fewer
// layers than stages.
Result<DeepStages> deep_stages(const Problem& problem, int microbatch,
                               int stages);

}  // namespace pipewright
