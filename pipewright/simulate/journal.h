// What the engine writes down of an execution: when each op of work started,
// and when each message was carried. All else that a timeline tells follows
// from these and from the code (replay.h), so it is not written here.

#pragma once

#include <cstdint>
#include <vector>

#include "pipewright/simulate/timed_code.h"

namespace pipewright {

// A message of a transfer, or a reduction.
struct Carried {
  double start, arrival;
  std::int32_t transfer, key;
};

struct Journal {
  // Empty, with room for what so many repetitions write.
  Journal(const TimedCode& code, int num_repetitions);
  Journal() = default;

  int repetitions = 0;
  std::vector<std::vector<double>> starts;     // per worker, each op of Work
  std::vector<std::vector<Carried>> messages;  // per channel, by start
};

}  // namespace pipewright
