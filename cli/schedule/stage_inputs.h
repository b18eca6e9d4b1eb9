// What `pipewright schedule` is told about stages: their times, the bytes of
// one microbatch's activations, and the bytes that they hold all the time.
//
//   --times 1,1,2                    the same for every stage
//   --times "1,1,2; 1,1,2; 2,2,4"    one group per stage
//   --times FILE                     one line per stage, the same three numbers
//   --activations 1.2GB,1.2GB,800MB  one for all, or one per stage
//   --weights 3GB                    with gradients and optimizer state
//   --memory 10GB                    of each worker; a plain number counts
//                                    activations

#pragma once

#include <string>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/plan/schedule/schedule.h"
#include "pipewright/schedules/generator.h"

namespace pipewright::cli {

struct StageInputOptions {
  std::string times, activations, weights, memory;
};

struct StageInputs {
  std::vector<ScheduleRequest::StageTimes> times;  // at least one
  std::vector<Bytes> activations;                  // empty: not known
  std::vector<Bytes> weights;                      // empty: none
  Bytes memory;                                    // 0: no limit
  double max_activations = 0;                      // 0: no limit

  // The number of stages that a list has; 1 where each has one entry.
  int num_stages() const;
  bool counts_bytes() const { return memory > Bytes(0); }
};

// Fails with BadConfiguration (numbers, lists of different lengths, bytes of
// memory without bytes of activations), MissingInput or MalformedInput.
Result<StageInputs> stage_inputs(const StageInputOptions& options);

// For a schedule of `stages` stages, `workers` workers. A list with one entry
// holds for every stage. A list with one entry per worker, where a worker has
// several stages, describes stages that are cut into equal parts. Fails with
// BadConfiguration if the numbers do not match.
Result<StageInputs> for_stages(const StageInputs& inputs, int stages,
                               int workers);

// The largest number of bytes that a worker holds: weights of its stages, and
// activations from F to B or W.
Bytes peak_bytes(const Schedule& schedule, WorkerId worker,
                 const StageInputs& inputs);

}  // namespace pipewright::cli
