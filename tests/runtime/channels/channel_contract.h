// The contract of a channel as one suite: what each worker does in a case, for
// every implementation. Workers may be threads or ranks; a case sees only its
// own end.

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
  bool cancels = false;  // the channels cannot be used afterwards
};

// Transfers of every kind from each worker to the next (onwards from w) and
// back (back to w). `kind` is a TransferKind: 0 gradients, 1 activations.
inline TransferId onwards(int from, int kind = 1) {
  return TransferId(8 * from + kind);
}
inline TransferId back_to(int to, int kind = 0) {
  return TransferId(8 * to + 4 + kind);
}

// The same and one reduction of parameters 0 and 4.
Program reducing(int workers, const std::vector<int>& contributors,
                 const std::vector<int>& readers);
std::vector<int> everyone(int workers);

// The part of the contract about large and many messages.
std::vector<std::pair<std::string, std::function<void(WorkerId, Channel&)>>>
flow_contract(int workers);

// Tensors on a device.
std::vector<ContractCase> device_contract(int workers, at::Device device);
// A device of tests, and a GPU where there is one.
std::vector<at::Device> contract_devices();

bool have_same_bits(const at::Tensor& one, const at::Tensor& two);

// For channels among `workers` workers, 2 to 4.
std::vector<ContractCase> channel_contract(int workers);

}  // namespace pipewright::testing
