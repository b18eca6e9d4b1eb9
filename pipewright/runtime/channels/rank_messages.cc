// Messages of one layout; see rank_messages.h.

#include "pipewright/runtime/channels/rank_messages.h"

#include <algorithm>
#include <stdexcept>

#include "pipewright/base/check.h"
#include "pipewright/plan/program/send_capacity.h"
#include "pipewright/runtime/channels/message_checksum.h"
#include "pipewright/runtime/ranks/packing.h"

namespace pipewright {
namespace {

constexpr std::int32_t kKeyOfLayout = 0;

// With checksums a message has one more value: a tensor of one number.
MessageLayout with_checksum(MessageLayout layout) {
  TensorLayout number{true, at::kLong, {1}, {1}, sizeof(std::int64_t)};
  layout.push_back({std::move(number)});
  return layout;
}

// The checksum of a message with these tensors, which also says which message
// it is.
at::Tensor checksum_tensor(std::uint64_t of_tensors, std::int32_t index,
                           std::int32_t key, int from, int to) {
  MessageChecksum checksum;
  for (const std::int64_t number : {std::int64_t{index}, std::int64_t{key},
                                    std::int64_t{from}, std::int64_t{to}})
    checksum.add(static_cast<std::uint64_t>(number));
  checksum.add(of_tensors);
  const at::Tensor tensor = at::empty({1}, at::kLong);
  *tensor.mutable_data_ptr<std::int64_t>() =
      static_cast<std::int64_t>(checksum.value());
  return tensor;
}

std::string packed_layout(const MessageLayout& layout,
                          const ParameterUses& uses) {
  Packer packer;
  packer.text(packed(layout));
  packer.numbers(uses);
  return packer.take();
}

}  // namespace

MessageEngine::Envelope MessageAddress::envelope(std::int32_t key) const {
  return {space, rank,
          index * num_tags + (key % num_tags + num_tags) % num_tags};
}

MessageAddress message_address(const MessageEngine& engine,
                               const Program& program, MessageSpace& space,
                               int rank, std::int32_t index) {
  const auto num_indices = static_cast<int>(program.transfers.size() +
                                            program.reductions.size() + 1);
  const int num_tags = std::clamp(engine.largest_tag() / num_indices, 1, 65536);
  return {&space, rank, index, num_tags, SendCapacity::expected(program)};
}

MessageSender::MessageSender(MessageEngine& engine,
                             std::vector<MessageAddress> to, Priority priority,
                             std::string name)
    : engine_(engine),
      to_(std::move(to)),
      priority_(priority),
      name_(std::move(name)) {}

void MessageSender::prepare(const Values& values) {
  copied_ = as_sent(values, sent_);
  if (!engine_.has_checksums()) return;
  if (copied_) std::exchange(copied_, nullptr)->synchronize();
  checksum_ = checksum_of(sent_);
}

void MessageSender::send(std::int32_t key, const ParameterUses& uses,
                         const std::shared_ptr<int>& unreceived) {
  if (!layout_) {
    layout_ = layout_of(sent_);
    uses_ = uses;
    const MessageLayout whole =
        engine_.has_checksums() ? with_checksum(*layout_) : *layout_;
    for (const MessageAddress& to : to_) {
      engine_.send_text(to.envelope(kKeyOfLayout), packed_layout(whole, uses_));
      engine_.expect_sends(to.rank, whole, priority_, to.expected);
    }
  } else if (!has_layout(sent_, *layout_) || uses != uses_) {
    throw std::runtime_error(name_ +
                             ": the shape differs from the first message's");
  }
  for (const MessageAddress& to : to_) {
    if (engine_.has_checksums())
      sent_.push_back(
          {checksum_tensor(checksum_, to.index, key, engine_.rank(), to.rank)});
    engine_.send(to.envelope(key), sent_, priority_, unreceived, copied_);
    if (engine_.has_checksums()) sent_.pop_back();
  }
  for (Tensors& tensors : sent_) tensors.clear();
  copied_.reset();
}

MessageReceiver::MessageReceiver(MessageEngine& engine,
                                 const MessageAddress& from, Priority priority,
                                 std::string name)
    : engine_(engine),
      from_(from),
      priority_(priority),
      name_(std::move(name)) {}

MessageReceiver::Slot& MessageReceiver::free_slot() {
  for (Slot& slot : slots_)
    if (!slot.is_used) return slot;
  Slot& added = slots_.emplace_back();
  added.receive = std::make_shared<Receive>();
  return added;
}

MessageEngine::Receive& MessageReceiver::post(std::int32_t key) {
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

void MessageReceiver::check(std::int32_t key, Receive& arrived) const {
  if (!engine_.has_checksums()) return;
  const at::Tensor sent = arrived.buffers.back().front();
  arrived.buffers.pop_back();
  const at::Tensor here =
      checksum_tensor(checksum_of(arrived.buffers), from_.index, key,
                      from_.rank, engine_.rank());
  if (here.equal(sent)) return;
  throw CorruptedMessage(
      name_ + " from rank " + std::to_string(from_.rank) + " to rank " +
      std::to_string(engine_.rank()) + ", with key " + std::to_string(key) +
      " of the run, have arrived with other bits than they were sent with");
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
