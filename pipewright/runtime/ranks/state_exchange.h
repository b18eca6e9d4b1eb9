// Weights, statistics and optimizer state between processes: what one worker
// has to tell others after a run, and all of it for a checkpoint.

#pragma once

#include <map>
#include <string>
#include <vector>

#include "pipewright/runtime/channels/transport.h"
#include "pipewright/runtime/execution/executor.h"
#include "pipewright/runtime/execution/network.h"

namespace pipewright {

// Parameters and statistics, some of all.
struct PartialState {
  std::map<ParameterId, at::Tensor> parameters;
  std::map<LayerId, Tensors> statistics;
};

// What workers of other processes start the next run with though they do not
// make it themselves: weights that a stage reads forward and another one owns,
// tied weights that stages step at different rates, and the statistics of
// replicas, of all of which the first worker's count. The same on every
// process.
struct SharedState {
  SharedState(const Network& network, const Program& program,
              const Transport& transport);
  std::map<ParameterId, WorkerId> parameters;  // and who makes them
  std::map<LayerId, WorkerId> statistics;
  bool is_empty() const { return parameters.empty() && statistics.empty(); }
};

// Hands `mine`, the shared state that is made here, to all processes.
PartialState exchanged(Transport& transport, const PartialState& mine);

// The leader gets the state of all; where several have a part, the first one's.
TrainingState gathered_state(Transport& transport, TrainingState mine,
                             const std::vector<bool>& has_parameter,
                             const std::vector<bool>& has_statistics);

std::string packed(const TrainingState& state);
TrainingState unpacked_state(std::string_view bytes);

}  // namespace pipewright
