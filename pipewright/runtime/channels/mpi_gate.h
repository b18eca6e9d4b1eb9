// Where a run ends, over MPI. For channels/mpi_*.cc alone.
//
// Rank 0 decides: with each repetition that it begins it allows all ranks to go
// a little further, and once the run is to end it says that what it has allowed
// is all. The others send it their losses, so that it can report steps as they
// happen.

#pragma once

#include <deque>

#include "pipewright/plan/program/program.h"
#include "pipewright/runtime/channels/mpi_engine.h"
#include "pipewright/runtime/execution/run_gate.h"

namespace pipewright {

class MpiGate final : public RunGate {
 public:
  // The engine must outlive it. `comm` is for gates alone, and has a rank for
  // each worker.
  MpiGate(MpiEngine& engine, MPI_Comm comm, const Program& program,
          int repetitions, RunHooks hooks);
  // Waits until everything has left, unless cancelled.
  ~MpiGate() override;

  bool begins(int repetition) override;
  void add_loss(std::int64_t microbatch, std::int32_t first, std::int32_t end,
                double mean) override;
  void finish() override;
  int repetitions() const override { return allowed_; }

 private:
  // From rank 0: so many repetitions may begin, and whether more may later.
  // From the others: a loss, or that no more will come.
  struct Word {
    std::int64_t number = 0;
    std::int32_t first = 0, end = 0;
    double mean = 0;
    bool is_last = false;
    std::uint64_t checksum = 0;  // of all others

    std::uint64_t own_checksum() const;
  };
  struct Sent {
    Word word;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  bool leads() const { return rank_ == 0; }
  void allow(int repetitions, bool is_last);
  void send(int to, const Word& word);
  bool has_left(Sent& sent);
  bool has_sent_all();
  // Reads the words that have come from a rank.
  void hear(int from);
  void hear_losses();

  MpiEngine& engine_;
  const MPI_Comm comm_;
  const int num_workers_, ahead_, asked_for_;
  const RunHooks hooks_;
  int rank_ = 0;
  int allowed_ = 0;
  bool is_decided_ = false;  // no more will be allowed
  int num_silent_ = 0;       // ranks that will send no more losses
  std::deque<Sent> sent_;    // those that have left are used again
};

}  // namespace pipewright
