// A worker's channel between ranks. For channels/ alone.
//
// The messages of each transfer have a sender or a receiver here
// (rank_messages.h), which learns their form anew in every run; reductions are
// in rank_reductions.h.

#pragma once

#include <memory>
#include <vector>

#include "pipewright/plan/program/program.h"
#include "pipewright/plan/program/send_capacity.h"
#include "pipewright/runtime/channels/channel.h"
#include "pipewright/runtime/channels/link_messages.h"
#include "pipewright/runtime/channels/message_engine.h"
#include "pipewright/runtime/channels/rank_links.h"
#include "pipewright/runtime/channels/rank_messages.h"
#include "pipewright/runtime/channels/rank_reductions.h"

namespace pipewright {

class RankChannel final : public Channel {
 public:
  // The arguments must outlive the channel.
  RankChannel(MessageEngine& engine, RankLinks& links, const Program& program,
              WorkerId worker, const std::vector<ReductionRanks>& reductions);
  // Waits until everything has left and arrived, unless cancelled.
  ~RankChannel() override;

  void receive_at(at::Device place) override;
  void before(const Action& action, std::int64_t microbatch) override;
  void send(TransferId transfer, std::int32_t key, Values&& values) override;
  void post(TransferId transfer, std::int32_t key) override;
  void take(TransferId transfer, std::int32_t key, Values& values) override;
  void reuse_messages() override;
  void contribute(ReductionId reduction, MicrobatchId microbatch,
                  std::vector<Contribution>&& contributions) override;
  void reduced(ReductionId reduction, MicrobatchId microbatch,
               Tensors& sums) override;
  void cancel() override;

 private:
  // This worker's end of a transfer.
  struct TransferEnd {
    std::unique_ptr<MessageSender> sender;
    std::unique_ptr<MessageReceiver> receiver;
    // Messages whose receive has not been posted; null where there is no bound.
    // Shared, for requests of a cancelled run outlive the channel.
    std::shared_ptr<int> unreceived;
  };

  TransferEnd end_of(TransferId transfer);
  void wait_for_capacity(TransferId transfer);

  MessageEngine& engine_;
  RankLinks& links_;
  const Program& program_;
  const WorkerId worker_;
  LinkMessages link_messages_;
  SendCapacity capacity_;
  std::vector<TransferEnd> transfers_;  // by transfer
  RankReductions reductions_;
};

}  // namespace pipewright
