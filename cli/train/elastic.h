// train --elastic: goes on with however many ranks there are.

#pragma once

#include <functional>
#include <string>

#include "cli/plan/replanning.h"
#include "cli/runtime_link.h"

namespace pipewright::cli {

struct ElasticOptions {
  std::string cluster;  // "": equal devices of the plan's kind
  ReplanningOptions replanning;
};

// The plan that all ranks train: the given one, if it is for as many ranks on
// these hosts, or one made for those that are there. Rank 0 decides and says
// so; `given` is called there only. Every rank has to call this. Fails on rank
// 0 as `given` and replanned() do, and then on every rank.
Result<Plan> elastic_plan(Launch& launch,
                          const std::function<Result<Plan>()>& given,
                          const ElasticOptions& options);

}  // namespace pipewright::cli
