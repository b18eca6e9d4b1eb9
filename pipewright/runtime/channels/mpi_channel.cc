// Transfers over MPI; see mpi_channel.h. Reductions are in mpi_reduction.cc.

#include "pipewright/runtime/channels/mpi_channel.h"

#include <algorithm>

namespace pipewright {
namespace {

Priority priority_of(const Transfer& transfer) {
  if (transfer.kind == TransferKind::Saved) return Priority::Saved;
  if (transfer.kind == TransferKind::Weights) return Priority::Weights;
  return Priority::High;
}

}  // namespace

MpiChannel::MpiChannel(MpiEngine& engine, const Program& program,
                       WorkerId worker,
                       const std::vector<ReductionRanks>& reductions)
    : engine_(engine),
      program_(program),
      worker_(worker),
      ranks_(reductions),
      capacity_(program) {
  const auto indices = static_cast<int>(program.transfers.size() +
                                        program.reductions.size() + 1);
  window_ = std::clamp(engine.largest_tag() / indices, 1, 65536);
  for (std::size_t t = 0; t < program.transfers.size(); ++t)
    links_.push_back(link_of(TransferId(t)));
  for (std::size_t r = 0; r < program.reductions.size(); ++r)
    sums_.push_back(sums_of(ReductionId(r)));
}

StreamAddress MpiChannel::address(const MpiGroup& group, int rank,
                                  std::int32_t index) const {
  return {&group, rank, index, window_, SendCapacity::expected(program_)};
}

// Weights have no bound: they come once a step, and some are never read.
MpiChannel::Link MpiChannel::link_of(TransferId transfer) {
  const Transfer& description = program_.transfers[transfer.index()];
  const auto with = [&](WorkerId other) {
    return address(engine_.everyone(), other.value, transfer.value);
  };
  const Priority priority = priority_of(description);
  Link link;
  if (description.from == worker_) {
    link.out = std::make_unique<OutgoingStream>(
        engine_, std::vector<StreamAddress>{with(description.to)}, priority,
        "transfer " + std::to_string(transfer.value));
    if (!description.is_keyed_by_version())
      link.waiting = std::make_shared<int>(0);
  }
  if (description.to == worker_)
    link.in = std::make_unique<IncomingStream>(engine_, with(description.from),
                                               priority);
  return link;
}

MpiChannel::~MpiChannel() {
  try {
    engine_.wait_until([this] { return engine_.is_idle(); });
  } catch (const std::exception&) {  // cancelled: nobody waits for it any more
  }
}

void MpiChannel::before(const Action&, std::int64_t) {
  const std::lock_guard lock(engine_.mutex());
  engine_.move_on();
}

void MpiChannel::wait_for_capacity(TransferId transfer) {
  const int* waiting = links_[transfer.index()].waiting.get();
  if (!waiting) return;
  {
    const std::lock_guard lock(engine_.mutex());
    if (*waiting < SendCapacity::kMinimum) return;
  }
  const int most = capacity_.of(transfer);
  engine_.wait_until([&] { return *waiting < most; });
}

void MpiChannel::send(TransferId transfer, std::int32_t key, Values&& values) {
  static const ParameterUses kNoUses;
  const Link& link = links_[transfer.index()];
  link.out->prepare(values);
  wait_for_capacity(transfer);
  const std::lock_guard lock(engine_.mutex());
  if (engine_.is_cancelled()) throw Cancelled();
  link.out->send(values, key, kNoUses, link.waiting);
  for (Tensors& tensors : values) tensors.clear();
  engine_.move_on();
}

void MpiChannel::post(TransferId transfer, std::int32_t key) {
  const std::lock_guard lock(engine_.mutex());
  if (engine_.is_cancelled()) throw Cancelled();
  links_[transfer.index()].in->posted(key);
}

void MpiChannel::take(TransferId transfer, std::int32_t key, Values& values) {
  IncomingStream& in = *links_[transfer.index()].in;
  Receive* receive = nullptr;
  {
    const std::lock_guard lock(engine_.mutex());
    if (engine_.is_cancelled()) throw Cancelled();
    receive = &in.posted(key);
  }
  engine_.wait_until([&] { return receive->outstanding == 0; });
  values.resize(receive->buffers.size());
  for (std::size_t v = 0; v < values.size(); ++v) {
    values[v].clear();
    for (std::size_t i = 0; i < receive->buffers[v].size(); ++i)
      values[v].push_back(receive->taken(v, i));
  }
  const std::lock_guard lock(engine_.mutex());
  in.end(key);
}

void MpiChannel::cancel() {
  const std::lock_guard lock(engine_.mutex());
  engine_.tell_cancelled();
}

}  // namespace pipewright
