// Executes TimedCode: when everything happens.
//
// Workers run one after the other from a worklist, each as far as its needs are
// known; at a need that is not known yet it waits until it is. Messages on
// direct links are timed at once. Only contended links (contended_links.h)
// decide in the order of time. They may do so when every worker waits: whatever
// a worker may still send follows from a message that has not started, so it
// comes no earlier than the next start.

#pragma once

#include <cstdint>
#include <vector>

#include "pipewright/simulate/engine/journal.h"
#include "pipewright/simulate/engine/timed_code.h"

namespace pipewright {

struct EngineOptions {
  int repetitions = 1;
  bool keep_journal = false;
  bool in_time_order = false;  // treats every link as contended; for tests
};

struct Execution {
  struct Worker {
    double busy = 0;
    double waiting_for_link = 0;
  };
  double duration = 0;
  std::int64_t num_actions = 0;
  std::vector<Worker> workers;
  std::vector<std::int64_t> messages;   // per transfer
  std::vector<double> seconds_on_link;  // per transfer, all messages
  Journal journal;                      // if it was asked for
};

Execution execute(const TimedCode& code, const EngineOptions& options);

}  // namespace pipewright
