// The contract of a channel as one suite: what each worker does in a case, for
// every implementation to be held against. Workers may be threads or processes;
// a case sees its own end alone.

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "pipewright/plan/program.h"
#include "pipewright/runtime/channels/channel.h"

namespace pipewright::testing {

struct ContractCase {
  std::string name;
  Program program;  // 2 workers, or as many as there are
  // Checks with doctest; the same for every worker of the program.
  std::function<void(WorkerId self, Channel& channel)> worker;
  bool cancels = false;  // the channels are of no use afterwards
};

// For channels among `workers` workers, 2 to 4.
std::vector<ContractCase> channel_contract(int workers);

}  // namespace pipewright::testing
