// Ranks and what they tell each other between runs; see rank_transport.h.

#include "pipewright/runtime/channels/rank_transport.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <utility>

#include "pipewright/runtime/channels/backoff.h"
#include "pipewright/runtime/channels/message_engine.h"
#include "pipewright/runtime/channels/mpi_network.h"
#include "pipewright/runtime/channels/rank_channel.h"
#include "pipewright/runtime/channels/rank_gate.h"
#include "pipewright/runtime/channels/rank_texts.h"
#include "pipewright/runtime/channels/socket_network.h"
#include "pipewright/runtime/execution/cores.h"

namespace pipewright {
namespace {

// Spaces of the ranks that add up gradients together, each asked for once.
class RankSpaces {
 public:
  explicit RankSpaces(RankNetwork& network) : network_(network) {}

  // Another `number` gives the same ranks another space. Null on other ranks.
  MessageSpace* of(const std::vector<int>& ranks, int number) {
    const auto [at, is_new] = spaces_.try_emplace({ranks, number});
    if (is_new) at->second = network_.space(ranks);
    return at->second.get();
  }

  void abandon() {
    for (auto& [key, space] : spaces_) pipewright::abandon(std::move(space));
    spaces_.clear();
  }

 private:
  RankNetwork& network_;
  std::map<std::pair<std::vector<int>, int>, std::unique_ptr<MessageSpace>>
      spaces_;
};

int cores_of_host() {
  return static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
}

class RankTransport final : public Transport {
 public:
  RankTransport(RankNetwork& network, int core, const TransportOptions& options)
      : network_(network),
        rank_(network.rank()),
        core_(core),
        options_(options),
        texts_(network),
        gates_(network.space_of_all()),
        spaces_(network),
        links_(texts_, rank_, links_for(options)) {
    start_engine();
  }
  ~RankTransport() override {
    const std::lock_guard lock(engine_->mutex());
    if (!engine_->is_cancelled()) return;
    spaces_.abandon();  // messages may still be under way
    texts_.abandon();
    abandon(std::move(gates_));
  }

  int rank() const override { return rank_; }
  int num_ranks() const override { return network_.size(); }
  std::string name() const override { return network_.name(); }
  std::string message_path() const override { return links_.to_text(name()); }
  bool is_here(WorkerId worker) const override { return worker.value == rank_; }
  int first_core() const override { return core_; }

  std::vector<std::unique_ptr<Channel>> connect(
      const Program& program) override {
    ranks_ = reduction_ranks(program, rank_);
    for (std::size_t r = 0; r < ranks_.size(); ++r) join_space(program, r);
    texts_.barrier();
    std::vector<std::unique_ptr<Channel>> channels;
    if (rank_ < program.num_workers())
      channels.push_back(std::make_unique<RankChannel>(
          *engine_, links_, program, WorkerId(rank_), ranks_));
    return channels;
  }

  // New spaces: messages of the old ones cannot be mistaken for theirs.
  void drop_messages() override {
    engine_->abandon();
    engine_.reset();
    spaces_.abandon();
    links_.drop();
    start_engine();
  }

  // A run that drains after every step is short: it is not ended early.
  std::unique_ptr<RunGate> gate(const Program& program, int repetitions,
                                RunHooks hooks) override {
    if (program.minibatches_outside > 0 && rank_ < program.num_workers())
      return std::make_unique<RankGate>(*engine_, network_, *gates_, program,
                                        repetitions, std::move(hooks));
    hooks.is_to_end = nullptr;
    return Transport::gate(program, repetitions, std::move(hooks));
  }

  std::vector<std::string> gather(std::string mine) override {
    if (rank_ != 0) {
      texts_.send(mine, 0);
      return {};
    }
    std::vector<std::string> all = {std::move(mine)};
    for (int from = 1; from < num_ranks(); ++from)
      all.push_back(texts_.received(from));
    return all;
  }

  std::string broadcast(std::string leaders) override {
    if (rank_ != 0) return texts_.received(0);
    for (int to = 1; to < num_ranks(); ++to) texts_.send(leaders, to);
    return leaders;
  }

 private:
  // Checksums are of what is in memory of the host.
  static LinkChoice links_for(const TransportOptions& options) {
    return options.checksum ? LinkChoice{LinkChoice::kNone} : options.links;
  }
  void start_engine() {
    engine_ = std::make_unique<MessageEngine>(network_, options_.checksum);
    if (options_.progress_thread) engine_->start_thread();
  }

  // Ranks that take part in several reductions have one space for all of them,
  // unless the network adds up and some ranks contribute in another order.
  void join_space(const Program& program, std::size_t reduction) {
    ReductionRanks& ranks = ranks_[reduction];
    const std::vector<int> all = ranks.all();
    if (all.size() < 2) return;
    ranks.is_fast = options_.fast_reduce && network_.adds_up() &&
                    !program.reductions[reduction].is_norm &&
                    ranks.contributors == ranks.readers;
    ranks.is_sliced = !ranks.is_fast && all.size() > 2 &&
                      !program.reductions[reduction].is_norm &&
                      ranks.contributors == ranks.readers;
    const bool shares = !ranks.is_fast || have_one_order(program, ranks_, all);
    ranks.space = spaces_.of(all, shares ? 0 : 1 + static_cast<int>(reduction));
  }

  RankNetwork& network_;
  const int rank_, core_;
  const TransportOptions options_;
  RankTexts texts_;
  std::unique_ptr<MessageSpace> gates_;
  RankSpaces spaces_;
  RankLinks links_;
  std::vector<ReductionRanks> ranks_;
  std::unique_ptr<MessageEngine> engine_;
};

}  // namespace

Result<std::unique_ptr<RankSession>> RankSession::start(Seconds limit) {
  std::unique_ptr<RankNetwork> network;
  if (launcher() == Launcher::Sockets) {
    PIPEWRIGHT_TRY(const MeetingPlace place, meeting_place());
    PIPEWRIGHT_TRY(network, socket_network(place, limit));
  } else {
    PIPEWRIGHT_TRY(network, mpi_network());
  }
  return std::unique_ptr<RankSession>(new RankSession(std::move(network)));
}

RankSession::RankSession(std::unique_ptr<RankNetwork> network)
    : network_(std::move(network)) {
  const HostRanks ranks = network_->ranks_on_host();
  Backoff::set_cores_shared(ranks.count > cores_of_host());
  // Where the launcher has bound ranks to cores, that stays.
  if (keeps_to_cores(ranks.count)) core_ = ranks.mine;
}

std::unique_ptr<Transport> RankSession::connect(
    const TransportOptions& options) {
  return std::make_unique<RankTransport>(*network_, core_, options);
}

}  // namespace pipewright
