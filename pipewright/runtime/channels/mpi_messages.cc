// Messages of one layout; see mpi_messages.h.

#include "pipewright/runtime/channels/mpi_messages.h"

#include <algorithm>
#include <stdexcept>

#include "pipewright/base/check.h"
#include "pipewright/plan/program/send_capacity.h"
#include "pipewright/runtime/ranks/packing.h"

namespace pipewright {
namespace {

constexpr std::int32_t kKeyOfLayout = 0;

std::string packed_layout(const MessageLayout& layout,
                          const ParameterUses& uses) {
  Packer packer;
  packer.text(packed(layout));
  packer.numbers(uses);
  return packer.take();
}

}  // namespace

MpiEngine::Envelope MessageAddress::envelope(std::int32_t key) const {
  return {group, rank,
          index * num_tags + (key % num_tags + num_tags) % num_tags};
}

MessageAddress message_address(const MpiEngine& engine, const Program& program,
                               const MpiGroup& group, int rank,
                               std::int32_t index) {
  const auto num_indices = static_cast<int>(program.transfers.size() +
                                            program.reductions.size() + 1);
  const int num_tags = std::clamp(engine.largest_tag() / num_indices, 1, 65536);
  return {&group, rank, index, num_tags, SendCapacity::expected(program)};
}

MessageSender::MessageSender(MpiEngine& engine, std::vector<MessageAddress> to,
                             Priority priority, std::string name)
    : engine_(engine),
      to_(std::move(to)),
      priority_(priority),
      name_(std::move(name)) {}

void MessageSender::prepare(const Values& values) {
  as_sent(values, engine_.sends_directly(), sent_);
}

void MessageSender::send(const Values& values, std::int32_t key,
                         const ParameterUses& uses,
                         const std::shared_ptr<int>& unreceived) {
  if (!layout_) {
    layout_ = layout_of(values, sent_);
    uses_ = uses;
    for (const MessageAddress& to : to_) {
      engine_.send_text(to.envelope(kKeyOfLayout),
                        packed_layout(*layout_, uses_));
      engine_.expect_sends(to.rank, *layout_, priority_, to.expected);
    }
  } else if (!has_layout(values, sent_, *layout_) || uses != uses_) {
    throw std::runtime_error(name_ +
                             ": the shape differs from the first message's");
  }
  for (const MessageAddress& to : to_)
    engine_.send(to.envelope(key), sent_, priority_, unreceived);
  for (Tensors& tensors : sent_) tensors.clear();
}

MessageReceiver::MessageReceiver(MpiEngine& engine, const MessageAddress& from,
                                 Priority priority)
    : engine_(engine), from_(from), priority_(priority) {}

MessageReceiver::Slot& MessageReceiver::free_slot() {
  for (Slot& slot : slots_)
    if (!slot.is_used) return slot;
  Slot& added = slots_.emplace_back();
  added.receive = std::make_shared<Receive>();
  return added;
}

MpiEngine::Receive& MessageReceiver::post(std::int32_t key) {
  for (const Slot& slot : slots_)
    if (slot.is_used && slot.key == key) return *slot.receive;
  Slot& slot = free_slot();
  slot.is_used = true;
  slot.key = key;
  Receive& receive = *slot.receive;
  if (layout_) {
    engine_.receive(from_.envelope(key), *layout_, priority_, slot.receive);
    return receive;
  }
  receive.outstanding = 1;  // the layout
  if (!std::exchange(is_layout_expected_, true))
    engine_.expect_text(from_.envelope(kKeyOfLayout),
                        [this](const std::string& text) { set_layout(text); });
  return receive;
}

// No message was taken before, so slots are in the order of posting.
void MessageReceiver::set_layout(const std::string& text) {
  Unpacker unpacker(text);
  layout_ = unpacked_layout(unpacker.text());
  uses_ = unpacker.numbers<ParameterUse>();
  engine_.expect_receives(*layout_, priority_, from_.expected);
  for (const Slot& slot : slots_) {
    --slot.receive->outstanding;
    engine_.receive(from_.envelope(slot.key), *layout_, priority_,
                    slot.receive);
  }
}

void MessageReceiver::end(std::int32_t key) {
  const auto slot = std::find_if(
      slots_.begin(), slots_.end(),
      [key](const Slot& each) { return each.is_used && each.key == key; });
  PIPEWRIGHT_CHECK(slot != slots_.end() && slot->receive->outstanding == 0,
                   "a message is taken that has not arrived");
  slot->is_used = false;
}

}  // namespace pipewright
