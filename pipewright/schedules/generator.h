// Generators of schedules: each makes a Schedule from the numbers of workers
// and microbatches. One generator per file, listed in registry.cc.

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/base/units.h"
#include "pipewright/plan/schedule/schedule.h"

namespace pipewright {

// The input of a generator. Most use only the first two numbers; zero-bubble
// and spp-pe also use times and limits.
struct ScheduleRequest {
  int workers = 1;            // p
  int microbatches = 1;       // M: per minibatch
  int stages_per_worker = 2;  // v: for generators that allow several

  // Per stage (p * v of them); empty: F = I = W = 1.
  struct StageTimes {
    Seconds forward{1}, backward_input{1}, backward_weight{1};
  };
  std::vector<StageTimes> times;
  Seconds transfer;  // between neighbouring stages
  // How many activations of one stage and microbatch a worker may hold at once:
  // one number per worker, one for all of them, or none for no limit.
  std::vector<double> memory_limit;
};

struct ScheduleGenerator {
  std::string name;     // "zb-h1"
  std::string summary;  // what it is good for, in one line
  std::string source;   // paper: title, venue, year
  std::function<Result<Schedule>(const ScheduleRequest&)> generate;
};

// Every generator, in the order `schedule --list` shows them.
const std::vector<ScheduleGenerator>& schedule_generators();

// Fails with BadConfiguration for an unknown name (the hint offers the nearest)
// and for numbers that the generator does not support.
Result<Schedule> generate_schedule(const std::string& name,
                                   const ScheduleRequest& request);

}  // namespace pipewright
