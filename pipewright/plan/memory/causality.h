// What a worker can know of the others' progress: vector clocks over a run
// without time. A message tells its reader how far its sender was, and all that
// the sender knew of others; a reduction tells its readers the same of all its
// workers. For memory_bound.cc alone.

#pragma once

#include <cstdint>
#include <vector>

#include "pipewright/plan/program/program.h"

namespace pipewright {

// A message, as its two ends see it in the order of their own actions.
// Positions count the actions of a worker's run.
struct MessageLife {
  TransferId transfer;
  std::int64_t sent = 0;          // sender's position of the send
  std::int64_t known_read = -1;   // sender's position at which it first knows
                                  // that the message has arrived; -1: never
  std::int64_t arrives_from = 0;  // receiver's position before which it cannot
                                  // have been sent, or was not posted
  std::int64_t last_read = -1;    // receiver's position; -1: never
};

// All messages of a run with that many repetitions, in no particular order.
// The program must have passed validate().
std::vector<MessageLife> message_lives(const Program& program, int repetitions);

}  // namespace pipewright
