// Asynchronous 1F1B with twice as many microbatches ahead, as 1f1b-so does for
// 1f1b. Stage i (from 1) runs 2(p-i) microbatches ahead of its backward, so
// 2(p-i)+1 are in flight, and a transfer that takes no longer than a microbatch
// overlaps with compute. This takes twice the memory for activations and twice
// the delay of weights.
//
// The number is that of Yang et al., "PipeMare: Asynchronous Pipeline Parallel
// DNN Training", MLSys 2021, whose stages hold 2(P-i)+1 microbatches. Using it
// for slow links is ours, after BaPipe's 1F1B-SO.
//
//   p = 2, M = 2:   prologue | body, repeated        | epilogue
//   0:              F0 F1    | F2 B0 F3 B1           | ...
//   1:                       | F0 B0 F1 B1           | ...

#include "pipewright/schedules/async_lead.h"
#include "pipewright/schedules/generators.h"

namespace pipewright {

ScheduleGenerator async_1f1b_so() {
  return {"async-1f1b-so",
          "async-1f1b with twice as much in flight: for slow links",
          "PipeMare: Asynchronous Pipeline Parallel DNN Training, MLSys 2021, "
          "for the number in flight; its use is Pipewright's",
          [](const ScheduleRequest& request) {
            return async_with_lead(request, 2);
          }};
}

}  // namespace pipewright
