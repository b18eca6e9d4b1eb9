// Asynchronous 1F1B: filled once, never drained. In steady state no worker
// waits, but weights change while microbatches are in flight; the method
// (stash, 2bw, pipemare, ...) says how to handle that.
//
// Narayanan et al., "PipeDream: Generalized Pipeline Parallelism for DNN
// Training", SOSP 2019; Yang et al., "PipeMare: Asynchronous Pipeline Parallel
// DNN Training", MLSys 2021.
//
//   p = 3, M = 2:   prologue | body, repeated        | epilogue
//   0:              F0 F1    | F2 B0 F3 B1           | ...
//   1:              F0       | F1 B0 F2 B1           | ...
//   2:                       | F0 B0 F1 B1           | ...
//
// Stage i (from 1) runs p-i microbatches ahead, so p-i+1 are in flight.
// Prologue and epilogue together complete ceil((p-1)/M) minibatches. A
// repetition of the body takes M(F+B).

#include "pipewright/schedules/async_lead.h"
#include "pipewright/schedules/generators.h"

namespace pipewright {

ScheduleGenerator async_1f1b() {
  return {"async-1f1b", "filled once, never drained: no bubble, stale weights",
          "PipeDream: Generalized Pipeline Parallelism for DNN Training, "
          "SOSP 2019",
          [](const ScheduleRequest& request) {
            return async_with_lead(request, 1);
          }};
}

}  // namespace pipewright
