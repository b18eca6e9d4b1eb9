// 1F1B: a backward runs as soon as it can, so that few microbatches are in
// flight. The step takes as long as GPipe's.
//
// Narayanan et al., "PipeDream: Generalized Pipeline Parallelism for DNN
// Training", SOSP 2019, for the order; Fan et al., "DAPPLE: A Pipelined Data
// Parallel Approach for Training Large Models", PPoPP 2021, for draining it at
// the end of each minibatch.
//
//   0 |F0F1F2        B0==F3B1==  B2==  B3==
//   1 |  F0F1    B0==F2B1==F3B2==  B3==
//   2 |    F0B0==F1B1==F2B2==F3B3==
//
// Step M(F+B) + (p-1)(F+B); in flight min(M, p-i+1) at stage i (from 1).

#include "pipewright/schedules/generators.h"
#include "pipewright/schedules/warm_up.h"

namespace pipewright {

ScheduleGenerator one_f_one_b() {
  return {"1f1b", "backwards as early as possible: gpipe's time, less memory",
          "DAPPLE: A Pipelined Data Parallel Approach for Training Large "
          "Models, PPoPP 2021",
          [](const ScheduleRequest& request) {
            std::vector<int> warm_up;
            for (int s = 0; s < request.workers; ++s)
              warm_up.push_back(request.workers - s);
            return warmed_up_schedule(request.microbatches, warm_up);
          }};
}

}  // namespace pipewright
