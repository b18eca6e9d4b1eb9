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

RankChannel::RankChannel(MessageEngine& engine, RankLinks& links,
                         const Program& program, WorkerId worker,
                         const std::vector<ReductionRanks>& reductions)
    : engine_(engine),
      links_(links),
      program_(program),
      worker_(worker),
      link_messages_(engine, program, links),
      capacity_(program),
      reductions_(engine, link_messages_, program, worker, reductions) {
  for (std::size_t t = 0; t < program.transfers.size(); ++t)
    transfers_.push_back(end_of(TransferId(t)));
  engine_.set_idle_work([this] { reductions_.add_up_arrived(); });
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
        engine_, link_messages_,
        std::vector<MessageAddress>{address(description.to)}, priority,
        name_of(description, transfer));
    if (!description.is_keyed_by_version())
      end.unreceived = std::make_shared<int>(0);
  }
  if (description.to == worker_)
    end.receiver = std::make_unique<MessageReceiver>(
        engine_, link_messages_, address(description.from), priority,
        name_of(description, transfer));
  return end;
}

RankChannel::~RankChannel() {
  engine_.set_idle_work(nullptr);
  try {
    engine_.wait_until([this] {
      link_messages_.make_progress();
      return engine_.is_idle() && link_messages_.is_idle();
    });
  } catch (const std::exception&) {  // cancelled: nobody waits for it any more
  }
}

void RankChannel::receive_at(at::Device place) {
  links_.open(program_, place);
  const std::lock_guard lock(engine_.mutex());
  engine_.set_place(place);
}

void RankChannel::before(const Action&, std::int64_t) {
  reductions_.add_up_arrived();
  const std::lock_guard lock(engine_.mutex());
  engine_.make_progress();
  engine_.free_sent();
  link_messages_.make_progress();
}

void RankChannel::wait_for_capacity(TransferId transfer) {
  const int* unreceived = transfers_[transfer.index()].unreceived.get();
  if (!unreceived) return;
  {
    const std::lock_guard lock(engine_.mutex());
    if (*unreceived < SendCapacity::kMinimum) return;
  }
  const int most = capacity_.of(transfer);
  engine_.wait_until([&] {
    link_messages_.make_progress();
    return *unreceived < most;
  });
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
  engine_.wait_until([&] { return receiver.has_arrived(key, *receive); });
  receiver.open(key, *receive);
  values.resize(receive->buffers.size());
  for (std::size_t v = 0; v < values.size(); ++v) {
    values[v].clear();
    for (std::size_t i = 0; i < receive->buffers[v].size(); ++i)
      values[v].push_back(receive->take(v, i));
  }
  const std::lock_guard lock(engine_.mutex());
  receiver.end(key);
}

// Messages through memory of the host were copied when they were sent.
void RankChannel::reuse_messages() {
  engine_.wait_until([this] { return link_messages_.let_write(); });
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
