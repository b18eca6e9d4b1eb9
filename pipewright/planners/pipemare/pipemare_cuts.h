// Cuts into as many stages as asked, balanced by time, and stages onto workers.

#pragma once

#include <functional>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/planners/planner.h"

namespace pipewright {

// The ends of `runs` consecutive runs of `items` things, none empty, whose
// largest load is least. load(run, first, end) grows with end and falls with
// first.
std::vector<int> balanced_runs(
    int items, int runs, const std::function<double(int, int, int)>& load);

struct DeepStages {
  std::vector<int> ends;       // first layer behind each stage
  std::vector<int> stages_of;  // consecutive stages of each worker
};

// Up to as many stages as layers with weights, each stage has one of them at
// least. Workers are the first devices. Fails with BadConfiguration if there
// are fewer layers than stages.
Result<DeepStages> deep_stages(const Problem& problem, int microbatch,
                               int stages);

}  // namespace pipewright
