// Transfers over MPI; see mpi_channel.h. Reductions are in mpi_reduction.cc.

#include "pipewright/runtime/channels/mpi_channel.h"

#include <algorithm>
#include <stdexcept>

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
      room_(program) {
  const auto indices = static_cast<int>(program.transfers.size() +
                                        program.reductions.size() + 1);
  window_ = std::clamp(engine.largest_tag() / indices, 1, 65536);
}

MpiChannel::~MpiChannel() {
  try {
    engine_.wait_until([this] { return engine_.is_idle(); });
  } catch (const std::exception&) {  // cancelled: nobody waits for it any more
  }
}

// Keys that are under way at the same time lie close together.
int MpiChannel::tag(std::int32_t index, std::int32_t key) const {
  return index * window_ + (key % window_ + window_) % window_;
}

MpiChannel::Line MpiChannel::line(WorkerId other, TransferId transfer,
                                  std::int32_t key) const {
  return {&engine_.everyone(), other.value, tag(transfer.value, key)};
}

void MpiChannel::before(const Action&, std::int64_t) {
  const std::lock_guard lock(engine_.mutex());
  engine_.move_on();
}

// Null where there is no bound: weights come once a step, and some are never
// read.
std::shared_ptr<int> MpiChannel::wait_for_room(TransferId transfer) {
  if (program_.transfers[transfer.index()].is_keyed_by_version())
    return nullptr;
  std::shared_ptr<int> waiting;
  {
    const std::lock_guard lock(engine_.mutex());
    auto& known = waiting_[transfer.value];
    if (!known) known = std::make_shared<int>(0);
    waiting = known;
    if (*waiting < Room::kLeast) return waiting;
  }
  const int most = room_.of(transfer);
  engine_.wait_until([&] { return *waiting < most; });
  return waiting;
}

void MpiChannel::send(TransferId transfer, std::int32_t key, Values&& given) {
  const Values values = std::move(given);
  const Transfer& description = program_.transfers[transfer.index()];
  const auto sent = as_sent(values, engine_.sends_directly());
  const std::shared_ptr<int> waiting = wait_for_room(transfer);
  const std::lock_guard lock(engine_.mutex());
  if (engine_.is_cancelled()) throw Cancelled();
  if (const auto known = sent_layouts_.find(transfer.value);
      known == sent_layouts_.end()) {
    const MessageLayout& layout = sent_layouts_[transfer.value] =
        layout_of(values, sent);
    engine_.send_text(line(description.to, transfer, 0), packed(layout));
  } else if (!has_layout(values, sent, known->second)) {
    throw std::runtime_error("transfer " + std::to_string(transfer.value) +
                             " has another shape than before");
  }
  engine_.send(line(description.to, transfer, key), sent,
               priority_of(description), waiting);
  engine_.move_on();
}

const std::shared_ptr<MpiEngine::Receive>& MpiChannel::posted(
    TransferId transfer, std::int32_t key) {
  auto& receive = receives_[Key(transfer.value, key)];
  if (receive) return receive;
  receive = std::make_shared<Receive>();
  const Transfer& description = program_.transfers[transfer.index()];
  const WorkerId from = description.from;
  const Priority priority = priority_of(description);
  Incoming& incoming = incoming_[transfer.value];
  const auto start = [this, transfer, from, priority, &incoming](
                         std::int32_t which,
                         const std::shared_ptr<Receive>& into) {
    engine_.receive(line(from, transfer, which), *incoming.layout, priority,
                    into);
  };
  if (incoming.layout) {
    start(key, receive);
    return receive;
  }
  receive->outstanding = 1;  // for the layout
  incoming.posted.emplace_back(key, receive);
  if (std::exchange(incoming.is_expected, true)) return receive;
  engine_.expect_text(line(from, transfer, 0),
                      [&incoming, start](const std::string& text) {
                        incoming.layout = unpacked_layout(text);
                        for (const auto& [which, into] : incoming.posted) {
                          --into->outstanding;
                          start(which, into);
                        }
                        incoming.posted.clear();
                      });
  return receive;
}

void MpiChannel::post(TransferId transfer, std::int32_t key) {
  const std::lock_guard lock(engine_.mutex());
  if (engine_.is_cancelled()) throw Cancelled();
  posted(transfer, key);
}

void MpiChannel::take(TransferId transfer, std::int32_t key, Values& values) {
  std::shared_ptr<Receive> receive;
  {
    const std::lock_guard lock(engine_.mutex());
    if (engine_.is_cancelled()) throw Cancelled();
    receive = posted(transfer, key);
  }
  engine_.wait_until([&] { return receive->outstanding == 0; });
  {
    const std::lock_guard lock(engine_.mutex());
    receives_.erase(Key(transfer.value, key));
  }
  values = receive->taken();
}

void MpiChannel::cancel() {
  const std::lock_guard lock(engine_.mutex());
  engine_.tell_cancelled();
}

}  // namespace pipewright
