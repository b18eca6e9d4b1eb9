// Ranks and what they tell each other between runs; see mpi_transport.h.

#include "pipewright/runtime/channels/mpi_transport.h"

#include <unistd.h>

#include <algorithm>
#include <optional>

#include "pipewright/runtime/channels/backoff.h"
#include "pipewright/runtime/channels/message_checksum.h"
#include "pipewright/runtime/channels/mpi_channel.h"
#include "pipewright/runtime/channels/mpi_engine.h"
#include "pipewright/runtime/channels/mpi_gate.h"
#include "pipewright/runtime/channels/mpi_version.h"
#include "pipewright/runtime/execution/cores.h"

namespace pipewright {
namespace {

constexpr int kTextTag = 2;
constexpr std::size_t kMaxPiece = std::size_t{1} << 30;

// Sleeps between polls: a checkpoint may take rank 0 minutes.
void wait_for(MPI_Request& request) {
  int done = 0;
  for (Backoff backoff;; backoff.pause()) {
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done) return;
  }
}

struct TextHeader {
  std::uint64_t size = 0, checksum = 0;
  std::uint64_t own = 0;  // of the two before

  std::uint64_t own_checksum() const {
    MessageChecksum sum;
    sum.add(size);
    sum.add(checksum);
    return sum.value();
  }
};

void send_bytes(const std::string& bytes, int to, MPI_Comm comm) {
  TextHeader header{bytes.size(), checksum_of(bytes), 0};
  header.own = header.own_checksum();
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Isend(&header, sizeof(header), MPI_BYTE, to, kTextTag, comm,
                      &request),
            "MPI_Isend");
  wait_for(request);
  for (std::size_t at = 0; at < bytes.size(); at += kMaxPiece) {
    const auto piece = static_cast<int>(std::min(kMaxPiece, bytes.size() - at));
    check_mpi(MPI_Isend(bytes.data() + at, piece, MPI_BYTE, to, kTextTag, comm,
                        &request),
              "MPI_Isend");
    wait_for(request);
  }
}

void check_text(bool is_same, int from) {
  if (!is_same)
    throw CorruptedMessage("what rank " + std::to_string(from) +
                           " has told this one between two runs has arrived "
                           "with other bits than it was sent with");
}

std::string received_bytes(int from, MPI_Comm comm) {
  TextHeader header;
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Irecv(&header, sizeof(header), MPI_BYTE, from, kTextTag, comm,
                      &request),
            "MPI_Irecv");
  wait_for(request);
  check_text(header.own == header.own_checksum(), from);
  std::string bytes(header.size, '\0');
  for (std::size_t at = 0; at < bytes.size(); at += kMaxPiece) {
    const auto piece =
        static_cast<int>(std::min<std::size_t>(kMaxPiece, bytes.size() - at));
    check_mpi(MPI_Irecv(bytes.data() + at, piece, MPI_BYTE, from, kTextTag,
                        comm, &request),
              "MPI_Irecv");
    wait_for(request);
  }
  check_text(header.checksum == checksum_of(bytes), from);
  return bytes;
}

struct HostRanks {
  int mine = 0, count = 1;  // on this host
};

HostRanks ranks_on_host() {
  MPI_Comm host = MPI_COMM_NULL;
  HostRanks ranks;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL,
                      &host);
  MPI_Comm_rank(host, &ranks.mine);
  MPI_Comm_size(host, &ranks.count);
  MPI_Comm_free(&host);
  return ranks;
}

int cores_of_host() {
  return static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
}

class MpiTransport final : public Transport {
 public:
  MpiTransport(int rank, int size, int core, const MpiOptions& options)
      : rank_(rank), size_(size), core_(core), options_(options) {
    for (MPI_Comm* comm : {&texts_, &gates_})
      check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, comm), "MPI_Comm_dup");
    start_engine();
  }
  ~MpiTransport() override {
    const std::lock_guard lock(engine_->mutex());
    if (engine_->is_cancelled()) return;  // messages may still be under way
    groups_->free();
    for (MPI_Comm* comm : {&texts_, &gates_}) MPI_Comm_free(comm);
  }

  int rank() const override { return rank_; }
  int num_ranks() const override { return size_; }
  std::string name() const override { return "MPI"; }
  bool is_here(WorkerId worker) const override { return worker.value == rank_; }
  int first_core() const override { return core_; }

  std::vector<std::unique_ptr<Channel>> connect(
      const Program& program) override {
    ranks_ = reduction_ranks(program, rank_);
    for (std::size_t r = 0; r < ranks_.size(); ++r) join_group(program, r);
    wait_for_all();
    std::vector<std::unique_ptr<Channel>> channels;
    if (rank_ < program.num_workers())
      channels.push_back(std::make_unique<MpiChannel>(*engine_, program,
                                                      WorkerId(rank_), ranks_));
    return channels;
  }

  // New communicators: messages of the old ones cannot be mistaken for theirs.
  void drop_messages() override {
    engine_->abandon();
    engine_.reset();
    start_engine();
  }

  // A run that drains after every step is short: it is not ended early.
  std::unique_ptr<RunGate> gate(const Program& program, int repetitions,
                                RunHooks hooks) override {
    if (program.minibatches_outside > 0 && rank_ < program.num_workers())
      return std::make_unique<MpiGate>(*engine_, gates_, program, repetitions,
                                       std::move(hooks));
    hooks.is_to_end = nullptr;
    return Transport::gate(program, repetitions, std::move(hooks));
  }

  std::vector<std::string> gather(std::string mine) override {
    if (rank_ != 0) {
      send_bytes(mine, 0, texts_);
      return {};
    }
    std::vector<std::string> all = {std::move(mine)};
    for (int from = 1; from < size_; ++from)
      all.push_back(received_bytes(from, texts_));
    return all;
  }

  std::string broadcast(std::string leaders) override {
    if (rank_ != 0) return received_bytes(0, texts_);
    for (int to = 1; to < size_; ++to) send_bytes(leaders, to, texts_);
    return leaders;
  }

 private:
  void start_engine() {
    engine_ = std::make_unique<MpiEngine>(MPI_COMM_WORLD, options_.checksum);
    groups_.emplace(engine_->everyone().comm);
    if (options_.progress_thread) engine_->start_thread();
  }

  void wait_for_all() {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Ibarrier(texts_, &request), "MPI_Ibarrier");
    wait_for(request);
  }

  // Ranks that take part in several reductions have one communicator for all of
  // them, unless MPI adds up and some ranks contribute in another order.
  void join_group(const Program& program, std::size_t reduction) {
    ReductionRanks& ranks = ranks_[reduction];
    const std::vector<int> all = ranks.all();
    if (all.size() < 2) return;
    ranks.is_fast = options_.fast_reduce &&
                    !program.reductions[reduction].is_norm &&
                    ranks.contributors == ranks.readers;
    const bool shares = !ranks.is_fast || have_one_order(program, ranks_, all);
    ranks.group =
        &groups_->group(all, shares ? 0 : 1 + static_cast<int>(reduction));
  }

  const int rank_, size_, core_;
  const MpiOptions options_;
  MPI_Comm texts_ = MPI_COMM_NULL, gates_ = MPI_COMM_NULL;
  std::vector<ReductionRanks> ranks_;
  std::unique_ptr<MpiEngine> engine_;
  std::optional<MpiGroups> groups_;
};

}  // namespace

Result<std::unique_ptr<MpiSession>> MpiSession::start() {
  int provided = MPI_THREAD_SINGLE;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided) !=
      MPI_SUCCESS)
    return bad_configuration("MPI does not start",
                             "does mpirun -n 2 hostname work?");
  std::unique_ptr<MpiSession> session(new MpiSession);
  if (provided < MPI_THREAD_MULTIPLE)
    return bad_configuration(
        mpi_version() + " does not allow calls from several threads at once",
        "install an MPI that was built with MPI_THREAD_MULTIPLE");
  MPI_Comm_rank(MPI_COMM_WORLD, &session->rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &session->size_);
  const HostRanks ranks = ranks_on_host();
  Backoff::set_cores_shared(ranks.count > cores_of_host());
  // Where the launcher has bound ranks to cores, that stays.
  if (keeps_to_cores(ranks.count)) session->core_ = ranks.mine;
  return session;
}

MpiSession::~MpiSession() { MPI_Finalize(); }

std::unique_ptr<Transport> MpiSession::connect(const MpiOptions& options) {
  return std::make_unique<MpiTransport>(rank_, size_, core_, options);
}

}  // namespace pipewright
