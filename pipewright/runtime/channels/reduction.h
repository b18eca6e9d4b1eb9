// The order in which gradients are added up: whoever does it, on any transport,
// gets the same bits.

#pragma once

#include <vector>

#include "pipewright/plan/program/program.h"
#include "pipewright/runtime/channels/channel.h"

namespace pipewright {

// What one worker has handed in.
struct WorkerContributions {
  WorkerId worker;
  std::vector<Contribution> contributions;
};

// The reductions sum in ascending order of layers (the uses of a tied
// parameter), within a layer in the order of the reduction's workers
// (replicas). Without replicas that is the order of a sequential run. Of a norm
// one number, in double.
Tensors reduction_sums(const Reduction& reduction,
                       const std::vector<WorkerContributions>& parts);

// Where the worker stands in that order.
std::size_t place_of(WorkerId worker, const Reduction& reduction);

// How many there are, and one of them.
std::size_t num_sums(const Reduction& reduction);
at::Tensor reduction_sum(const Reduction& reduction, std::size_t index,
                         const std::vector<WorkerContributions>& parts);

// Who takes part in each reduction, minibatch for minibatch.
struct Participants {
  int givers = 0;  // workers with a Reduce action
  int readers =
      0;  // Steps of workers and stages, and norms, that read the sums
};
std::vector<Participants> participants_of(const Program& program);

}  // namespace pipewright
