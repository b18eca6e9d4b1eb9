// A worker's channel over MPI. For channels/mpi_*.cc alone.
//
// A transfer is a stream of messages, and so are the gradients that a worker
// hands to a reduction; see mpi_stream.h. Forms are learned anew in every run.
// Sums have the communicator of those who take part.

#pragma once

#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "pipewright/plan/program/program.h"
#include "pipewright/plan/program/send_capacity.h"
#include "pipewright/runtime/channels/channel.h"
#include "pipewright/runtime/channels/in_turn.h"
#include "pipewright/runtime/channels/mpi_engine.h"
#include "pipewright/runtime/channels/mpi_stream.h"
#include "pipewright/runtime/channels/reduction.h"

namespace pipewright {

// Which ranks give to and read from a reduction; worker i is on rank i.
struct ReductionRanks {
  std::set<int> givers, readers;
  int readers_here = 0;  // stages of this rank's worker that read the sums
  const MpiGroup* group = nullptr;  // all of them; none if this rank is alone
  bool is_fast = false;             // MPI adds up
  std::vector<int> all() const;
};
std::vector<ReductionRanks> reduction_ranks(const Program& program, int rank);

// Whether these ranks hand in to the reductions that are theirs together in one
// order: only then may MPI's own sums share a communicator.
bool have_one_order(const Program& program,
                    const std::vector<ReductionRanks>& reductions,
                    const std::vector<int>& ranks);

class MpiChannel final : public Channel {
 public:
  // All outlive the channel.
  MpiChannel(MpiEngine& engine, const Program& program, WorkerId worker,
             const std::vector<ReductionRanks>& reductions);
  // Waits until everything has left and arrived, unless cancelled.
  ~MpiChannel() override;

  void before(const Action& action, std::int64_t microbatch) override;
  void send(TransferId transfer, std::int32_t key, Values&& values) override;
  void post(TransferId transfer, std::int32_t key) override;
  void take(TransferId transfer, std::int32_t key, Values& values) override;
  void contribute(ReductionId reduction, std::int32_t microbatch,
                  std::vector<Contribution>&& contributions) override;
  void reduced(ReductionId reduction, std::int32_t microbatch,
               Tensors& sums) override;
  void cancel() override;

 private:
  using Receive = MpiEngine::Receive;

  // A transfer from this worker or to it.
  struct Link {
    std::unique_ptr<OutgoingStream> out;
    std::unique_ptr<IncomingStream> in;
    // How many messages wait for a receive; null where there is no bound.
    // Shared, for requests of a cancelled run outlive the channel.
    std::shared_ptr<int> waiting;
  };
  // A reduction of one minibatch. Keeps its lists when it has ended.
  struct Running {
    std::int32_t microbatch = kNoMicrobatch;
    bool is_begun = false, is_given = false;
    std::vector<WorkerContributions> parts;  // own first, then other givers'
    std::vector<Receive*> arriving;          // of the other givers
    Tensors sums;
    at::Tensor flat;               // of MPI's own sums, in memory of the host
    at::Device device = at::kCPU;  // of the gradients
    std::shared_ptr<Receive> flat_sum;  // its request
    int read = 0;
    void end();
  };
  struct Sums {
    std::unique_ptr<OutgoingStream> out;  // to the other readers
    std::vector<std::pair<int, std::unique_ptr<IncomingStream>>> in;  // by rank
    InTurn<Running> running;
    // Of what is handed in now; kept for their memory.
    Values gradients;
    ParameterUses uses;
    Tensors flattened;
  };

  StreamAddress address(const MpiGroup& group, int rank,
                        std::int32_t index) const;
  Link link_of(TransferId transfer);
  Sums sums_of(ReductionId reduction);
  void wait_for_capacity(TransferId transfer);
  Running& running(ReductionId reduction, std::int32_t microbatch);
  void begin(Running& running, ReductionId reduction);
  void add_own(Running& running, std::vector<Contribution>& contributions);
  void contribute_flat(Running& running, ReductionId reduction);
  bool is_complete(const Running& running, const ReductionRanks& ranks) const;
  void add_up(Running& running, ReductionId reduction);
  void end(Running& running, ReductionId reduction);

  MpiEngine& engine_;
  const Program& program_;
  const WorkerId worker_;
  const std::vector<ReductionRanks>& ranks_;
  SendCapacity capacity_;
  int window_ = 1;
  std::vector<Link> links_;  // by transfer
  std::vector<Sums> sums_;   // by reduction
};

}  // namespace pipewright
