// A worker's channel over MPI. For channels/mpi_*.cc alone.
//
// A transfer's tag is made of its index and key, so that receives find their
// messages whatever the order in which keys are taken. Layouts are learned anew
// in every run: the first message of a transfer goes with its layout. Sums have
// the communicator of those who take part.

#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "pipewright/plan/program.h"
#include "pipewright/runtime/channels/channel.h"
#include "pipewright/runtime/channels/mpi_engine.h"
#include "pipewright/runtime/channels/reduction.h"
#include "pipewright/runtime/channels/room.h"

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
  void contribute(std::int32_t reduction, std::int32_t microbatch,
                  std::vector<Contribution>&& contributions) override;
  void reduced(std::int32_t reduction, std::int32_t microbatch,
               Tensors& sums) override;
  void cancel() override;

 private:
  using Key = std::pair<std::int32_t, std::int32_t>;  // index, key
  using Receive = MpiEngine::Receive;
  using Line = MpiEngine::Line;

  // A transfer to this worker: its layout, once that is known, and what was
  // posted before.
  struct Incoming {
    std::optional<MessageLayout> layout;
    bool is_expected = false;
    std::vector<std::pair<std::int32_t, std::shared_ptr<Receive>>> posted;
  };
  // Another worker's part of a reduction.
  struct Part {
    std::vector<Contribution> contributions;  // without gradients
    std::shared_ptr<Receive> gradients;
  };
  struct Running {
    bool is_begun = false;
    std::vector<WorkerContributions> mine;
    std::map<int, Part> parts;  // by rank
    Tensors sums;
    at::Tensor flat;               // of MPI's own sums, in memory of the host
    at::Device device = at::kCPU;  // of the gradients
    bool is_flat_done = false;
    int read = 0;
  };

  int tag(std::int32_t index, std::int32_t key) const;
  Line line(WorkerId other, TransferId transfer, std::int32_t key) const;
  Line line_of_sums(int rank, std::int32_t reduction,
                    std::int32_t microbatch) const;
  std::shared_ptr<int> wait_for_room(TransferId transfer);
  const std::shared_ptr<Receive>& posted(TransferId transfer, std::int32_t key);
  void begin(Running& running, std::int32_t reduction, std::int32_t microbatch);
  void contribute_flat(Running& running, std::int32_t reduction,
                       std::vector<Contribution> contributions);
  bool is_complete(const Running& running, const ReductionRanks& ranks) const;
  void add_up(Running& running, const Reduction& reduction) const;

  MpiEngine& engine_;
  const Program& program_;
  const WorkerId worker_;
  const std::vector<ReductionRanks>& ranks_;
  Room room_;
  int window_ = 1;
  // By transfer: how many messages wait for a receive. Shared, for requests of
  // a cancelled run outlive the channel.
  std::map<std::int32_t, std::shared_ptr<int>> waiting_;
  std::map<std::int32_t, MessageLayout> sent_layouts_;  // by transfer
  std::map<std::int32_t, Incoming> incoming_;           // by transfer
  std::map<Key, std::shared_ptr<Receive>> receives_;
  std::map<Key, Running> running_;
};

}  // namespace pipewright
