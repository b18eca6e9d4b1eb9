#include "pipewright/runtime/channels/rank_channel.h"

#include <string>

namespace pipewright {
namespace {

Priority priority_of(const Transfer& transfer) {
  if (transfer.kind == TransferKind::Saved) return Priority::Kept;
  if (transfer.kind == TransferKind::Weights) return Priority::Weights;
  return Priority::High;
}

std::string name_of(const Transfer& transfer, TransferId id) {
  static const char* const kNames[] = {"gradients", "activations",
                                       "saved tensors", "weights"};
  return std::string(kNames[static_cast<int>(transfer.kind)]) + " (transfer " +
         std::to_string(id.value) + ")";
}

}  // namespace

RankChannel::RankChannel(MessageEngine& engine, const Program& program,
                         WorkerId worker,
                         const std::vector<ReductionRanks>& reductions)
    : engine_(engine),
      program_(program),
      worker_(worker),
      capacity_(program),
      reductions_(engine, program, worker, reductions) {
  for (std::size_t t = 0; t < program.transfers.size(); ++t)
    transfers_.push_back(end_of(TransferId(t)));
}

// Weights have no bound: they are sent once per step, and some are never read.
RankChannel::TransferEnd RankChannel::end_of(TransferId transfer) {
  const Transfer& description = program_.transfer(transfer);
  const auto address = [&](WorkerId other) {
    return message_address(engine_, program_, engine_.everyone(), other.value,
                           transfer.value);
  };
  const Priority priority = priority_of(description);
  TransferEnd end;
  if (description.from == worker_) {
    end.sender = std::make_unique<MessageSender>(
        engine_, std::vector<MessageAddress>{address(description.to)}, priority,
        name_of(description, transfer));
    if (!description.is_keyed_by_version())
      end.unreceived = std::make_shared<int>(0);
  }
  if (description.to == worker_)
    end.receiver = std::make_unique<MessageReceiver>(
        engine_, address(description.from), priority,
        name_of(description, transfer));
  return end;
}

RankChannel::~RankChannel() {
  try {
    engine_.wait_until([this] { return engine_.is_idle(); });
  } catch (const std::exception&) {  // cancelled: nobody waits for it any more
  }
}

void RankChannel::receive_at(at::Device place) {
  const std::lock_guard lock(engine_.mutex());
  engine_.set_place(place);
}

void RankChannel::before(const Action&, std::int64_t) {
  const std::lock_guard lock(engine_.mutex());
  engine_.make_progress();
  engine_.free_sent();
}

void RankChannel::wait_for_capacity(TransferId transfer) {
  const int* unreceived = transfers_[transfer.index()].unreceived.get();
  if (!unreceived) return;
  {
    const std::lock_guard lock(engine_.mutex());
    if (*unreceived < SendCapacity::kMinimum) return;
  }
  const int most = capacity_.of(transfer);
  engine_.wait_until([&] { return *unreceived < most; });
}

void RankChannel::send(TransferId transfer, std::int32_t key, Values&& values) {
  static const ParameterUses kNoUses;
  const TransferEnd& end = transfers_[transfer.index()];
  end.sender->prepare(values);
  wait_for_capacity(transfer);
  const std::lock_guard lock(engine_.mutex());
  if (engine_.is_cancelled()) throw Cancelled();
  end.sender->send(key, kNoUses, end.unreceived);
  for (Tensors& tensors : values) tensors.clear();
  engine_.make_progress();
}

void RankChannel::post(TransferId transfer, std::int32_t key) {
  const std::lock_guard lock(engine_.mutex());
  if (engine_.is_cancelled()) throw Cancelled();
  transfers_[transfer.index()].receiver->post(key);
}

void RankChannel::take(TransferId transfer, std::int32_t key, Values& values) {
  MessageReceiver& receiver = *transfers_[transfer.index()].receiver;
  MessageEngine::Receive* receive = nullptr;
  {
    const std::lock_guard lock(engine_.mutex());
    if (engine_.is_cancelled()) throw Cancelled();
    receive = &receiver.post(key);
  }
  engine_.wait_until([&] { return receive->outstanding == 0; });
  receiver.check(key, *receive);
  values.resize(receive->buffers.size());
  for (std::size_t v = 0; v < values.size(); ++v) {
    values[v].clear();
    for (std::size_t i = 0; i < receive->buffers[v].size(); ++i)
      values[v].push_back(receive->take(v, i));
  }
  const std::lock_guard lock(engine_.mutex());
  receiver.end(key);
}

void RankChannel::contribute(ReductionId reduction, MicrobatchId microbatch,
                             std::vector<Contribution>&& contributions) {
  reductions_.contribute(reduction, microbatch, std::move(contributions));
}

void RankChannel::reduced(ReductionId reduction, MicrobatchId microbatch,
                          Tensors& sums) {
  reductions_.reduced(reduction, microbatch, sums);
}

void RankChannel::cancel() {
  const std::lock_guard lock(engine_.mutex());
  engine_.cancel_all();
}

}  // namespace pipewright
