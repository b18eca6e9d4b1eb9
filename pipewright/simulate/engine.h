// Executes TimedCode: when everything happens.
//
// Workers run one after the other from a worklist, each as far as its reads are
// known; a read that is not known yet parks the worker until it is. Transfers
// on direct wires are timed at once. Only wires that must choose (see
// ordered_wires.h) decide in the order of time, which is safe when every worker
// is parked: whatever a worker may still ask for follows from a transfer that
// has not started, so it comes no earlier than the next start.

#pragma once

#include <cstdint>
#include <vector>

#include "pipewright/simulate/journal.h"
#include "pipewright/simulate/timed_code.h"

namespace pipewright {

struct EngineOptions {
  int repetitions = 1;
  bool keep_journal = false;
  bool in_time_order = false;  // treats no wire as direct
};

// What one run was like; simulate() makes the Timeline from it.
struct Execution {
  struct Worker {
    double busy = 0;
    double waiting_for_link = 0;
  };
  double duration = 0;
  std::int64_t num_ops = 0;
  std::vector<Worker> workers;
  std::vector<std::int64_t> messages;   // per transfer
  std::vector<double> seconds_on_wire;  // per transfer, all messages
  Journal journal;                      // if it was asked for
};

Execution execute(const TimedCode& code, const EngineOptions& options);

}  // namespace pipewright
