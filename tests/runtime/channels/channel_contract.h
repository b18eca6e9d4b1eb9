// The contract of a channel as one suite: what each worker does in a case, for
// every implementation to be held against. Workers may be threads or processes;
// a case sees its own end alone.

#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "pipewright/plan/program/program.h"
#include "pipewright/runtime/channels/channel.h"

namespace pipewright::testing {

struct ContractCase {
  std::string name;
  Program program;  // 2 workers, or as many as there are
  // Checks with doctest; the same for every worker of the program.
  std::function<void(WorkerId self, Channel& channel)> worker;
  bool cancels = false;  // the channels are of no use afterwards
};

// Transfers of every kind go from each worker to the next and back: from w
// onwards, and back to w. As values of TransferKind: 0 gradients, 1
// activations.
inline TransferId onwards(int from, int kind = 1) {
  return TransferId(8 * from + kind);
}
inline TransferId back_to(int to, int kind = 0) {
  return TransferId(8 * to + 4 + kind);
}

// One reduction of parameters 0 and 4 beside them; who gives and reads as said.
Program reducing(int workers, const std::vector<int>& givers,
                 const std::vector<int>& readers);
std::vector<int> everyone(int workers);

// The part of the contract that is about how much goes through, and how fast.
std::vector<std::pair<std::string, std::function<void(WorkerId, Channel&)>>>
flow_contract(int workers);

// What is on a CUDA device. Nothing where there is none, and says so.
std::vector<ContractCase> device_contract(int workers);

// For channels among `workers` workers, 2 to 4.
std::vector<ContractCase> channel_contract(int workers);

}  // namespace pipewright::testing
