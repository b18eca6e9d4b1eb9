// One worker's part in the reductions of a program, between ranks. For
// channels/ alone.
//
// In the fixed order each worker sends its gradients to all workers that read
// the sums, and each of those adds them up in the order of reduction.h; three
// and more that do both share the adding (sliced_reduction.h). MPI's own
// all-reduce adds in an order of its own. All use a space of the ranks that
// take part.

#pragma once

#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "pipewright/plan/program/program.h"
#include "pipewright/runtime/channels/channel.h"
#include "pipewright/runtime/channels/message_engine.h"
#include "pipewright/runtime/channels/minibatch_slots.h"
#include "pipewright/runtime/channels/rank_messages.h"
#include "pipewright/runtime/channels/reduction.h"
#include "pipewright/runtime/channels/sliced_reduction.h"

namespace pipewright {

// The ranks that contribute to a reduction and read its sums, as one of them
// sees it; worker i is on rank i.
struct ReductionRanks {
  std::set<int> contributors, readers;
  int num_readers_here = 0;  // stages of this rank's worker that read the sums
  MessageSpace* space = nullptr;  // of all; null if this rank is alone
  bool is_fast = false;           // the network adds up
  bool is_sliced = false;         // each adds up a slice

  std::vector<int> all() const;
};
std::vector<ReductionRanks> reduction_ranks(const Program& program, int rank);

// Whether these ranks contribute to the reductions that they share in one
// order: only then may the network's own sums share a space.
bool have_one_order(const Program& program,
                    const std::vector<ReductionRanks>& reductions,
                    const std::vector<int>& ranks);

class RankReductions {
 public:
  // The arguments must outlive it.
  RankReductions(MessageEngine& engine, LinkMessages& links,
                 const Program& program, WorkerId worker,
                 const std::vector<ReductionRanks>& ranks);

  // As a Channel does.
  void contribute(ReductionId reduction, MicrobatchId microbatch,
                  std::vector<Contribution>&& contributions);
  void reduced(ReductionId reduction, MicrobatchId microbatch, Tensors& sums);
  // What others wait for, as far as it can be done now; without the engine's
  // mutex.
  void add_up_arrived();

 private:
  using Receive = MessageEngine::Receive;

  // A reduction of one minibatch. Keeps its lists when it has ended.
  struct Running {
    MicrobatchId microbatch;
    bool is_begun = false, has_own_part = false;
    std::vector<WorkerContributions> parts;  // own, then other contributors'
    std::vector<Receive*> arriving;          // of the other contributors
    Tensors sums;
    at::Tensor flat;               // the network's sums, in the host's memory
    at::Device device = at::kCPU;  // of the gradients
    at::ScalarType type = at::kFloat;
    std::shared_ptr<Receive> flat_sum;  // its request
    int num_read = 0;
    void end();
  };
  // What is kept of one reduction from minibatch to minibatch.
  struct State {
    std::unique_ptr<SlicedReduction> sliced;  // in place of all the others
    std::unique_ptr<MessageSender> sender;    // to the other readers
    // By rank of the other contributors.
    std::vector<std::pair<int, std::unique_ptr<MessageReceiver>>> receivers;
    MinibatchSlots<Running> running;
    // Of the contribution in progress; kept for their memory.
    Values gradients;
    ParameterUses uses;
    Tensors flattened;
  };

  State state_of(ReductionId reduction);
  MessageAddress address(ReductionId reduction, int rank, bool of_sums) const;
  std::unique_ptr<SlicedReduction> sliced(ReductionId reduction) const;
  Running& running(ReductionId reduction, MicrobatchId microbatch);
  void begin(Running& running, ReductionId reduction);
  void add_own_part(Running& running, std::vector<Contribution>& contributions);
  void start_all_reduce(Running& running, ReductionId reduction);
  bool is_complete(const Running& running, ReductionId reduction);
  void add_up(Running& running, ReductionId reduction);
  void end(Running& running, ReductionId reduction);

  MessageEngine& engine_;
  LinkMessages& links_;
  const Program& program_;
  const WorkerId worker_;
  const std::vector<ReductionRanks>& ranks_;
  std::vector<State> states_;  // by reduction
};

}  // namespace pipewright
