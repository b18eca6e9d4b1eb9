// Who can know how far whom: a program run without a clock, in which every
// message tells its reader how far its sender was, and all that the sender had
// been told. For memory_bound.cc alone.

#pragma once

#include <cstdint>
#include <vector>

#include "pipewright/plan/program/program.h"
#include "pipewright/plan/program/program_messages.h"

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
