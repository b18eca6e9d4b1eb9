// What the engine records of an execution: when each op of work started, and
// when each message was carried. All else that a timeline shows follows from
// these and from the code (history/replay.h).

#pragma once

#include <cstdint>
#include <vector>

#include "pipewright/simulate/engine/timed_code.h"

namespace pipewright {

// A message of a transfer, or a reduction of one minibatch.
struct CarriedMessage {
  double start, arrival;
  std::int32_t transfer, key;
};

struct Journal {
  // Empty, with capacity for that many repetitions.
  Journal(const TimedCode& code, int num_repetitions);
  Journal() = default;

  int repetitions = 0;
  std::vector<std::vector<double>> starts;  // per worker, each op of Work
  std::vector<std::vector<CarriedMessage>> messages;  // per channel, by start
};

}  // namespace pipewright
