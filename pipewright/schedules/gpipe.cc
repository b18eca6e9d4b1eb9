// GPipe: all forwards, then all backwards. Simple, but all microbatches are in
// flight at once.
//
// Huang et al., "GPipe: Efficient Training of Giant Neural Networks using
// Pipeline Parallelism", NeurIPS 2019. Backwards go in ascending order here
// (the paper's figure has them descending), so that gradients are summed as in
// every other schedule.
//
//   0 |F0F1F2            B0==B1==B2==
//   1 |  F0F1F2      B0==B1==B2==
//   2 |    F0F1F2B0==B1==B2==
//
// Step M(F+B) + (p-1)(F+B); in flight M at every stage.

#include "pipewright/base/index.h"
#include "pipewright/schedules/generators.h"
#include "pipewright/schedules/warm_up.h"

namespace pipewright {

ScheduleGenerator gpipe() {
  return {"gpipe", "all forwards, then all backwards: simplest, most memory",
          "GPipe: Efficient Training of Giant Neural Networks using Pipeline "
          "Parallelism, NeurIPS 2019",
          [](const ScheduleRequest& request) {
            return warmed_up_schedule(
                request.microbatches,
                std::vector<int>(at(request.workers), request.microbatches));
          }};
}

}  // namespace pipewright
