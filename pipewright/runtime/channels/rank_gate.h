// Where a run ends, between ranks. For channels/ alone.
//
// Rank 0 decides: with each repetition that it begins it allows all ranks to go
// a little further, and once the run is to end it says that what it has allowed
// is all. The others send it their losses, so that it can report steps as they
// happen.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pipewright/plan/program/program.h"
#include "pipewright/runtime/channels/message_engine.h"
#include "pipewright/runtime/execution/run_gate.h"

namespace pipewright {

class RankGate final : public RunGate {
 public:
  // The arguments must outlive it. `space` is for gates alone, and has a rank
  // for each worker.
  RankGate(MessageEngine& engine, RankNetwork& network, MessageSpace& space,
           const Program& program, int repetitions, RunHooks hooks);
  // Waits until everything has left, unless cancelled.
  ~RankGate() override;

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
  bool leads() const { return rank_ == 0; }
  void allow(int repetitions, bool is_last);
  void send(int to, const Word& word);
  bool has_sent_all();
  // Reads the words that have come from a rank.
  void hear(int from);
  void hear_losses();

  MessageEngine& engine_;
  MessageSpace& space_;
  const int num_workers_, ahead_, asked_for_;
  const RunHooks hooks_;
  const int rank_;
  int allowed_ = 0;
  bool is_decided_ = false;  // no more will be allowed
  int num_silent_ = 0;       // ranks that will send no more losses
  std::unique_ptr<RequestList> leaving_;
  std::vector<std::unique_ptr<Word>> sent_;    // beside leaving_
  std::vector<std::unique_ptr<Word>> unused_;  // have left
  std::string text_;                           // that has come
};

}  // namespace pipewright
