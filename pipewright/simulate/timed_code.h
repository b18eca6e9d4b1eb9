// A Program and its costs as flat arrays, ready to be executed many times.
//
// Only the simulator uses it. Every reference is resolved to a number: an
// action to its duration, a read to the slot in which the arrival will stand, a
// transfer to its channel and wire. Sections keep their own base, so a body
// that repeats a million times is here once.

#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "pipewright/plan/program/program.h"
#include "pipewright/simulate/costs.h"
#include "pipewright/simulate/fair_share.h"

namespace pipewright {

// What a key counts: microbatches move on by num_microbatches with each
// repetition; versions and minibatches by one.
enum class KeyBase : std::uint8_t {
  Microbatch,
  Repetition,
};

enum class OpCode : std::uint8_t {
  Work,  // compute (one action, or several joined) or step
  Send,
  Receive,
  Reduce,
};

// Small, since a run goes through all of them again and again.
struct Op {
  std::int32_t target = -1;      // Send, Receive: transfer; Reduce: reduction;
                                 // Work: its first action, in its section
  std::int32_t key = 0;          // Send, Receive, Reduce: from the base
                                 // Work: the first it waits for, in needs
  std::int32_t cost = 0;         // in op_costs: of Work; of Send on a blocking
                                 // worker
  std::uint16_t num_needs = 0;   // of Work
  std::uint8_t num_actions = 1;  // of Work: more than one if joined
  OpCode code : 4 = OpCode::Work;
  KeyBase base : 4 = KeyBase::Microbatch;

  std::int32_t first_need() const { return key; }
  std::int32_t end_need() const { return key + num_needs; }
};
static_assert(sizeof(Op) == 16);

// What an op takes, and does to its worker's memory as it starts and ends. Few
// distinct ones, many ops.
struct OpCost {
  double seconds = 0;
  std::int64_t allocates = 0, frees = 0;
};

// A wait of Work for a transfer or a reduction.
struct Need {
  std::int32_t transfer = 0;  // or a reduction, as in TimedCode::transfers
  std::int32_t key = 0;       // from the base
  // Keys up to here are there from the start: version 0 of weights.
  std::int32_t there_until = std::numeric_limits<std::int32_t>::min();
  KeyBase base = KeyBase::Microbatch;
};

// One worker's ops: prologue [0], body [1], epilogue [2] of `sections` are
// ranges of ops.
struct TimedWorker {
  std::int32_t begin[4] = {0, 0, 0, 0};  // section i is begin[i]..begin[i+1]
  bool blocking = false;
  double body_seconds = 0;                // computing in one repetition
  std::int32_t num_works[3] = {0, 0, 0};  // of the program, per section
};

// A channel carries transfers of one kind from one worker to another, in order.
// Each reduction has one of its own, between no two workers.
struct TimedChannel {
  std::int32_t from = 0, to = 0;
  TransferKind kind = TransferKind::Activation;
  std::int32_t wire = -1;  // none if its transfers take latency only
  std::int32_t num_messages[3] = {0, 0, 0};  // per section of the receiver
};

// What one transfer at a time occupies.
struct Wire {
  std::vector<std::int32_t> channels;
  bool shares = false;  // some transfer on it divides a pool with other wires
  // One channel and nothing shared: a transfer's start follows from what is
  // known when it is sent and posted, whatever else happens.
  bool is_direct() const { return channels.size() == 1 && !shares; }
};

// A transfer of the program, or a reduction: it, too, is carried when all its
// parts have been handed over.
struct TimedTransfer {
  double seconds_on_wire = 0;  // if nobody shares
  double latency = 0;
  double bytes = 0;
  double limit = 0;  // bytes per second, if nobody shares
  std::int32_t first_use = 0, num_uses = 0;  // in pool_uses: what it shares
  std::int32_t channel = 0;
  std::int32_t ring = 0, mask = 0;
  std::int32_t reads = 1;  // actions that read one message of it
  std::int32_t parts = 1;  // Reduce actions that make a reduction complete
  KeyBase base = KeyBase::Microbatch;

  double seconds() const { return seconds_on_wire + latency; }
};

struct TimedCode {
  const Program* program = nullptr;
  std::vector<Op> ops;
  std::vector<OpCost> op_costs{1};  // the first: nothing
  std::vector<Need> needs;
  std::vector<TimedWorker> workers;
  std::vector<TimedTransfer> transfers;  // as in Program, then reductions
  std::int32_t first_reduction = 0;
  std::vector<TimedChannel> channels;
  std::vector<Wire> wires;
  // Per reduction of the program: those that end before it starts, and those
  // that start after it, by their numbers among the reductions.
  std::vector<std::vector<std::int32_t>> after, followers;
  std::vector<double> pools;  // bytes per second
  std::vector<PoolUse> pool_uses;
  std::int32_t num_slots = 0;

  double seconds(const Op& op) const {
    return op_costs[static_cast<std::size_t>(op.cost)].seconds;
  }
  // Every wire is direct: the timeline is a longest path.
  bool is_direct() const;
  // Keys that a repetition moves on.
  int advance_of(KeyBase base) const {
    return base == KeyBase::Microbatch ? program->num_microbatches : 1;
  }
};

struct TimedCodeOptions {
  // It will be executed for one repetition only, and has nothing but a body.
  bool runs_once = false;
};
TimedCode timed_code(const Program& program, const Costs& costs,
                     const TimedCodeOptions& options = {});

}  // namespace pipewright
