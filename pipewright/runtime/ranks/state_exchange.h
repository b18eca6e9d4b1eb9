// Weights, statistics and optimizer state between ranks: what other ranks need
// for their next run, and the whole state for a checkpoint.

#pragma once

#include <map>
#include <string>
#include <vector>

#include "pipewright/runtime/channels/transport.h"
#include "pipewright/runtime/execution/network.h"
#include "pipewright/runtime/execution/training_state.h"

namespace pipewright {

// Some of the parameters and statistics.
struct PartialState {
  std::map<ParameterId, at::Tensor> parameters;
  std::map<LayerId, Tensors> statistics;
};

// What ranks need for their next run from a worker on another rank: weights
// that one stage reads in forward and another owns, tied weights that stages
// step at different rates, and statistics of replicas, of which the first
// worker's count. The same on every rank.
struct SharedState {
  SharedState(const Network& network, const Program& program,
              const Transport& transport);
  std::map<ParameterId, WorkerId> parameters;  // and who has them
  std::map<LayerId, WorkerId> statistics;
  bool is_empty() const { return parameters.empty() && statistics.empty(); }
};

// Sends `mine`, the part of the shared state that this rank has, to all ranks;
// returns the whole.
PartialState exchange_state(Transport& transport, const PartialState& mine);

// Rank 0 gets the whole state; where several ranks have a part, the first
// one's.
TrainingState gather_state(Transport& transport, TrainingState mine,
                           const std::vector<bool>& has_parameter,
                           const std::vector<bool>& has_statistics);

std::string packed(const TrainingState& state);
TrainingState unpacked_state(std::string_view bytes);

}  // namespace pipewright
