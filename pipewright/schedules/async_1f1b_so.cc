// Asynchronous 1F1B with twice the lead: what 1f1b-so is to 1f1b. Stage i (from
// 1) runs 2(p-i) microbatches ahead of its backward, so 2(p-i)+1 are in flight,
// and a transfer that takes no longer than a microbatch hides behind compute.
// The price is twice the memory for activations and twice the delay of weights.
//
// The lead is that of Yang et al., "PipeMare: Asynchronous Pipeline Parallel
// DNN Training", MLSys 2021, whose stages hold 2(P-i)+1 microbatches; to spend
// it on slow links is ours, after BaPipe's 1F1B-SO.
//
//   p = 2, M = 2:   prologue | body, again and again | epilogue
//   0:              F0 F1    | F2 B0 F3 B1           | ...
//   1:                       | F0 B0 F1 B1           | ...

#include "pipewright/schedules/async_lead.h"
#include "pipewright/schedules/generators.h"

namespace pipewright {

ScheduleGenerator async_1f1b_so() {
  return {"async-1f1b-so",
          "async-1f1b with twice the lead: hides slow links, staler weights",
          "PipeMare: Asynchronous Pipeline Parallel DNN Training, MLSys 2021, "
          "for the lead; its use is Pipewright's",
          [](const ScheduleRequest& request) {
            return async_with_lead(request, 2);
          }};
}

}  // namespace pipewright
