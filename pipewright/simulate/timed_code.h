// A Program and its costs as flat arrays, ready to be executed many times.
//
// Only the simulator uses it. Every reference is resolved to a number: an
// action to its duration, a read to the slot in which the arrival will stand, a
// transfer to its channel and wire. Sections keep their own base, so a body
// that repeats a million times is here once.

#pragma once

#include <cstdint>
#include <vector>

#include "pipewright/plan/program.h"
#include "pipewright/simulate/simulate.h"

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

struct Op {
  double seconds = 0;            // of Work; of Send on a blocking worker
  std::int32_t first_need = 0;   // Work: what it waits for, in needs
  std::int32_t end_need = 0;     //
  std::int32_t target = -1;      // Send, Receive: transfer; Reduce: reduction;
                                 // Work: its first action, in actions
  std::int32_t num_actions = 1;  // of Work: more than one if joined
  std::int32_t key = 0;          // of Send, Receive, Reduce, from the base
  KeyBase base = KeyBase::Microbatch;
  OpCode code = OpCode::Work;
};

// A wait of Work for a transfer or a reduction.
struct Need {
  std::int32_t ring = 0;       // first slot; transfers first, then reductions
  std::int32_t mask = 0;       // slots in the ring, less one
  std::int32_t key = 0;        // from the base
  std::int32_t transfer = -1;  // -1: a reduction
  double blocks = 0;           // seconds a blocking worker spends receiving it
  KeyBase base = KeyBase::Microbatch;
  bool from_start =
      false;  // weights: versions up to 0 are there from the start
};

// One worker's ops: prologue [0], body [1], epilogue [2] of `sections` are
// ranges of ops.
struct TimedWorker {
  std::int32_t begin[4] = {0, 0, 0, 0};  // section i is begin[i]..begin[i+1]
  bool blocking = false;
  double body_seconds = 0;  // computing in one repetition
};

// A channel carries transfers of one kind from one worker to another, in order.
struct TimedChannel {
  std::int32_t from = 0, to = 0;
  TransferKind kind = TransferKind::Activation;
  std::int32_t wire = -1;  // none if its transfers take latency only
};

// What one transfer at a time occupies.
struct Wire {
  std::vector<std::int32_t> channels;
  bool shares = false;  // some transfer on it uses a shared resource
  // One channel and nothing shared: a transfer's start follows from what is
  // known when it is sent and posted, whatever else happens.
  bool is_direct() const { return channels.size() == 1 && !shares; }
};

struct TimedTransfer {
  double seconds_on_wire = 0;
  double latency = 0;
  std::int32_t channel = 0;
  std::int32_t ring = 0, mask = 0;
  std::int32_t reads = 1;  // actions that read one message of it
};

struct TimedReduction {
  double seconds = 0;
  std::int32_t ring = 0, mask = 0;
  std::int32_t parts = 1;                // Reduce actions that make it complete
  std::vector<std::int32_t> after = {};  // reductions that end before it starts
};

struct TimedCode {
  const Program* program = nullptr;
  const Costs* costs = nullptr;
  std::vector<Op> ops;
  std::vector<Need> needs;
  std::vector<Action> actions;  // of Work, for recording
  std::vector<double> action_seconds;
  std::vector<TimedWorker> workers;
  std::vector<TimedTransfer> transfers;
  std::vector<TimedReduction> reductions;
  std::vector<TimedChannel> channels;
  std::vector<Wire> wires;
  std::int32_t num_slots = 0;

  // Every wire is direct: the timeline is a longest path.
  bool is_direct() const;
};

TimedCode timed_code(const Program& program, const Costs& costs);

}  // namespace pipewright
