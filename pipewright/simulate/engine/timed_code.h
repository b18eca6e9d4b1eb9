// A Program and its costs as flat arrays, ready to be executed many times.
//
// Only the simulator uses it; compile.h makes it. Every reference is a number:
// an action refers to its duration, a read to the slot that will hold the
// arrival, a transfer to its channel and link. Sections keep their own base, so
// a body that repeats a million times is here once.

#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "pipewright/plan/program/program.h"
#include "pipewright/simulate/links/timed_network.h"

namespace pipewright {

enum class OpCode : std::uint8_t {
  Work,  // compute (one action, or two joined) or step; or only a wait
  Send,
  Stream,  // a send that may start while the work before it is done
  Receive,
  Reduce,
};

// Small, since an execution reads all of them again and again.
struct Op {
  std::int32_t target = -1;      // Send, Stream, Receive: transfer; Reduce:
                                 // reduction; Work: its first action, in its
                                 // section
  std::int32_t key = 0;          // of all but Work: from the base
                                 // Work: the first of its needs
  std::int32_t cost = 0;         // in op_costs: of Work; of Send on a blocking
                                 // worker, also if it streams
  std::uint16_t num_needs = 0;   // of Work
  std::uint8_t num_actions = 1;  // of Work: 2 if joined, 0 if it only waits
  OpCode code : 4 = OpCode::Work;
  KeyBase base : 4 = KeyBase::Microbatch;

  std::int32_t first_need() const { return key; }
  std::int32_t end_need() const { return key + num_needs; }
};
static_assert(sizeof(Op) == 16);

// What an op takes, and how it changes its worker's memory when it starts and
// ends. Many ops share few costs.
struct OpCost {
  double seconds = 0;
  std::int64_t allocates = 0, frees = 0;
};

// Work waits for a message or a reduction.
struct Need {
  std::int32_t transfer = 0;  // as in TimedNetwork::transfers
  std::int32_t key = 0;       // from the base
  // Keys up to this one are available from the start: version 0 of weights.
  std::int32_t available_until = std::numeric_limits<std::int32_t>::min();
  KeyBase base = KeyBase::Microbatch;
};

enum Section : std::int32_t {
  kPrologue,
  kBody,
  kEpilogue
};
using PerSection = std::array<std::int32_t, 3>;  // counts

struct TimedWorker {
  std::int32_t begin[4] = {0, 0, 0, 0};  // section s: begin[s] to begin[s + 1]
  double blocking = 0;      // the share of a transfer in which it is busy
  double body_seconds = 0;  // computing in one repetition
  PerSection num_works = {0, 0, 0};
};

// Where the arrivals of a transfer are kept: by key, in a ring of slots.
struct SlotRing {
  std::int32_t first = 0, mask = 0;

  std::int32_t slot(std::int32_t key) const { return first + (key & mask); }
};

struct TimedCode {
  const Program* program = nullptr;
  TimedNetwork network;
  std::vector<Op> ops;
  std::vector<OpCost> op_costs{1};  // the first: nothing
  std::vector<Need> needs;          // and one more: the next can be looked at
  std::vector<TimedWorker> workers;
  std::vector<std::int32_t> num_contributions;  // per reduction, a minibatch
  std::vector<SlotRing> slots;                  // per transfer and reduction
  std::int32_t num_slots = 0;
  std::vector<std::int32_t> num_readers;  // per transfer: of one message
  std::vector<PerSection> num_messages;   // per channel, of the receiver

  double seconds(const Op& op) const { return op_costs[op.cost].seconds; }
};

}  // namespace pipewright
