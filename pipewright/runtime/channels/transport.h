// Connects the ranks that run a program together: which workers are on this
// rank, their channels, and what ranks tell each other between runs. A program
// without a launcher is one rank with all workers.
//
// Rank 0 leads: it trains as if it were alone, and the others follow. Every
// rank makes the same calls on its transport in the same order.

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "pipewright/base/error.h"
#include "pipewright/base/units.h"
#include "pipewright/plan/program/program.h"
#include "pipewright/runtime/channels/channel.h"
#include "pipewright/runtime/execution/run_gate.h"

namespace pipewright {

// For a worker whose device hangs: all of them, or none.
struct StallHooks {
  std::function<Seconds()> limit;  // how long it may take to get further
  // Whether devices have work that is not done: who waits for them now may wait
  // for another rank.
  std::function<void(bool)> on_busy;
  // Ends the process; empty: devices are not watched. Called on any thread.
  std::function<void(const Error&)> give_up;
};

class Transport {
 public:
  virtual ~Transport() = default;

  virtual const StallHooks& stalls() const {
    static const StallHooks kNone;
    return kNone;
  }

  virtual int rank() const = 0;
  virtual int num_ranks() const = 0;
  bool is_alone() const { return num_ranks() == 1; }
  bool leads() const { return rank() == 0; }
  // What connects the ranks ("MPI"), and what this rank's messages have gone
  // over so far, which may be "NCCL".
  virtual std::string name() const { return "memory"; }
  virtual std::string message_path() const { return name(); }
  virtual bool is_here(WorkerId worker) const = 0;
  // The first worker of this rank runs on this one of the cores that the rank
  // may use, the next worker on the next core; -1: on any. Ranks that share a
  // host are given different cores. A rank that is alone chooses by itself.
  virtual int first_core() const { return -1; }

  // The channels of the workers on this rank, in ascending order, for one run
  // of the program, which must outlive them. Returns when all ranks have called
  // it.
  virtual std::vector<std::unique_ptr<Channel>> connect(
      const Program& program) = 0;

  // Drops what a run that failed on any rank has left under way. Every rank
  // calls it before the next connect().
  virtual void drop_messages() {}

  // Where the run ends; `hooks` count repetitions. Every rank calls it after
  // connect(), with the same program and repetitions.
  virtual std::unique_ptr<RunGate> gate(const Program& program, int repetitions,
                                        RunHooks hooks) {
    static_cast<void>(program);
    return std::make_unique<InProcessGate>(repetitions, std::move(hooks));
  }

  // On rank 0: the text of each rank, by rank. On the others: nothing.
  virtual std::vector<std::string> gather(std::string mine) = 0;
  // On every rank: the text of rank 0.
  virtual std::string broadcast(std::string leaders) = 0;
};

// One rank with all workers as threads.
std::unique_ptr<Transport> in_process_transport();

}  // namespace pipewright
