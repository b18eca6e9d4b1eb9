// The processes that run a program together: which of its workers are in this
// one, the channels of those, and what processes tell each other between runs.
//
// Process 0 leads: it trains as if it were alone, and the others follow.
// Whoever uses a transport does the same calls in the same order on every
// process.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pipewright/plan/program/program.h"
#include "pipewright/runtime/channels/channel.h"

namespace pipewright {

class Transport {
 public:
  virtual ~Transport() = default;

  virtual int process() const = 0;
  virtual int num_processes() const = 0;
  bool is_alone() const { return num_processes() == 1; }
  bool leads() const { return process() == 0; }
  virtual bool is_here(WorkerId worker) const = 0;
  // Which of the cores that this process may use is to be its first worker's,
  // the next one the next one's; -1: any. What shares the machine with other
  // processes knows; one alone decides for itself.
  virtual int first_core() const { return -1; }

  // The ends of the workers that are here, in ascending order, for one run of
  // the program, which outlives them. All processes get here before any leaves.
  virtual std::vector<std::unique_ptr<Channel>> connect(
      const Program& program) = 0;

  // What each process says, in their order; nothing on those that follow.
  virtual std::vector<std::string> gathered(std::string mine) = 0;
  // What the leader says.
  virtual std::string broadcast(std::string leaders) = 0;
};

// One process that has all workers.
std::unique_ptr<Transport> in_process_transport();

}  // namespace pipewright
