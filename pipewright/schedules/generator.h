// What makes a Schedule from numbers: one generator a file, listed in
// registry.cc.

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/base/units.h"
#include "pipewright/plan/schedule/schedule.h"

namespace pipewright {

// What a generator may look at. Most look only at the first two; a search wants
// times and limits.
struct ScheduleRequest {
  int workers = 1;       // p: pipeline depth; without chunks also the stages
  int microbatches = 1;  // M: per minibatch
  int chunks = 2;        // v: stages per worker, where the generator has them

  // Per stage (p * v of them); empty: F = I = W = 1.
  struct StageTimes {
    Seconds forward{1}, backward_input{1}, backward_weight{1};
  };
  std::vector<StageTimes> times;
  Seconds transfer;  // between neighbouring stages
  // Microbatch activations a worker may hold at once, in units of one stage's:
  // one per worker, one for all of them, or none for no limit.
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

// Fails with BadConfiguration: an unknown name (the nearest offered), or
// numbers that the generator cannot do (why).
Result<Schedule> generate_schedule(const std::string& name,
                                   const ScheduleRequest& request);

}  // namespace pipewright
