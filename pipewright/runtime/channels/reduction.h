// Sums of gradients over workers: who takes part, and in which order they are
// added. Every transport adds in this order and gets the same bits.

#pragma once

#include <set>
#include <utility>
#include <vector>

#include "pipewright/plan/program/program.h"
#include "pipewright/runtime/channels/channel.h"

namespace pipewright {

// What one worker has contributed.
struct WorkerContributions {
  WorkerId worker;
  std::vector<Contribution> contributions;
};

// The sums of a reduction, in ascending order of layers (the uses of a tied
// parameter) and within a layer in the order of the reduction's workers
// (replicas). Without replicas that is the order of a sequential run. A norm is
// one number, in double.
Tensors reduction_sums(const Reduction& reduction,
                       const std::vector<WorkerContributions>& parts);
// How many sums there are, and one of them.
std::size_t num_sums(const Reduction& reduction);
at::Tensor reduction_sum(const Reduction& reduction, std::size_t index,
                         const std::vector<WorkerContributions>& parts);

// The position of the worker in that order.
std::size_t place_of(WorkerId worker, const Reduction& reduction);

// Who takes part in a reduction, once per minibatch.
struct Participants {
  std::set<WorkerId> contributors;  // have a Reduce action
  // Whose Step reads the sums, by worker and stage; without a stage it is the
  // worker's Reduce of a norm that does.
  std::set<std::pair<WorkerId, StageId>> readers;

  int num_contributors() const { return static_cast<int>(contributors.size()); }
  int num_readers() const { return static_cast<int>(readers.size()); }
};
std::vector<Participants> participants_of(const Program& program);

}  // namespace pipewright
