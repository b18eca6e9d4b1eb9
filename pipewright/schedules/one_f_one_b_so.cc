// 1F1B-SO: 1F1B with about twice the warm-up, so that the transfer of one
// microbatch overlaps with the compute of another.
//
// Zhao et al., "BaPipe: Exploration of Balanced Pipeline Parallelism for DNN
// Training", arXiv 2012.12544, 2020. The warm-up of 2(p-i)+1 forwards at stage
// i (from 1) is our interpretation: the smallest with the step time below.
//
//   0 |F0F1F2F3F4    B0==F5B1==  B2==  B3==  B4==  B5==
//   1 |  F0F1F2  B0==F3B1==F4B2==F5B3==  B4==  B5==
//   2 |    F0B0==F1B1==F2B2==F3B3==F4B4==F5B5==
//
// Step (M+p-1)(F+B) + 2(p-1)T for transfers of T with 2T <= F+B; in flight
// min(M, 2(p-i)+1).

#include "pipewright/schedules/generators.h"
#include "pipewright/schedules/warm_up.h"

namespace pipewright {

ScheduleGenerator one_f_one_b_so() {
  return {"1f1b-so", "1f1b with more in flight: overlaps transfers, 2x memory",
          "BaPipe: Exploration of Balanced Pipeline Parallelism for DNN "
          "Training, arXiv 2012.12544, 2020",
          [](const ScheduleRequest& request) {
            std::vector<int> warm_up;
            for (int s = 0; s < request.workers; ++s)
              warm_up.push_back(2 * (request.workers - 1 - s) + 1);
            return warmed_up_schedule(request.microbatches, warm_up);
          }};
}

}  // namespace pipewright
