// Messages of one layout; see rank_messages.h.

#include "pipewright/runtime/channels/rank_messages.h"

#include <algorithm>
#include <stdexcept>

#include "pipewright/base/check.h"
#include "pipewright/runtime/channels/message_checksum.h"

namespace pipewright {
namespace {

constexpr std::int32_t kKeyOfForm = 0;

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

}  // namespace

MessageSender::MessageSender(MessageEngine& engine, LinkMessages& links,
                             std::vector<MessageAddress> to, Priority priority,
                             std::string name)
    : engine_(engine),
      links_(links),
      to_(std::move(to)),
      priority_(priority),
      name_(std::move(name)) {}

bool MessageSender::goes_over_links() const {
  return std::all_of(to_.begin(), to_.end(), [this](const auto& each) {
    return links_.lead_to(each.rank);
  });
}

void MessageSender::prepare(const Values& values) {
  const bool has_links = std::any_of(
      to_.begin(), to_.end(),
      [this](const auto& each) { return links_.lead_to(each.rank); });
  if (has_links) on_device(values, engine_.place(), on_device_);
  if (goes_over_links()) return;
  copied_ = as_sent(values, sent_);
  if (!engine_.has_checksums()) return;
  if (copied_) std::exchange(copied_, nullptr)->synchronize();
  checksum_ = checksum_of(sent_);
}

// With its first message. Over a link it goes with the notice.
void MessageSender::send_form(const MessageAddress& to) {
  MessageForm whole = *form_;
  if (engine_.has_checksums()) whole.layout = with_checksum(whole.layout);
  engine_.send_text(to.envelope(kKeyOfForm), packed(whole));
  engine_.expect_sends(to.rank, whole.layout, priority_, to.expected);
}

void MessageSender::send(std::int32_t key, const ParameterUses& uses,
                         const std::shared_ptr<int>& unreceived) {
  const Values& values = goes_over_links() ? on_device_ : sent_;
  const bool is_first = !form_;
  if (is_first)
    form_ = MessageForm{layout_of(values), uses};
  else if (!has_layout(values, form_->layout) || uses != form_->uses)
    throw std::runtime_error(name_ +
                             ": the shape differs from the first message's");
  for (const MessageAddress& to : to_) {
    if (links_.lead_to(to.rank)) {
      links_.send(to.rank, {to.subject, key}, on_device_, *form_, unreceived);
      continue;
    }
    if (is_first) send_form(to);
    if (engine_.has_checksums())
      sent_.push_back(
          {checksum_tensor(checksum_, to.index, key, engine_.rank(), to.rank)});
    engine_.send(to.envelope(key), sent_, priority_, unreceived, copied_);
    if (engine_.has_checksums()) sent_.pop_back();
  }
  for (Tensors& tensors : sent_) tensors.clear();
  for (Tensors& tensors : on_device_) tensors.clear();
  copied_.reset();
}

MessageReceiver::MessageReceiver(MessageEngine& engine, LinkMessages& links,
                                 const MessageAddress& from, Priority priority,
                                 std::string name)
    : engine_(engine),
      links_(links),
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
  if (comes_over_link()) {
    receive.outstanding = 1;  // the notice
    return receive;
  }
  if (form_) {
    engine_.receive(from_.envelope(key), form_->layout, priority_,
                    slot.receive);
    return receive;
  }
  receive.outstanding = 1;  // the form
  if (!std::exchange(is_form_expected_, true))
    engine_.expect_text(from_.envelope(kKeyOfForm),
                        [this](const std::string& text) { set_form(text); });
  return receive;
}

// No message was taken before, so slots are in the order of posting.
void MessageReceiver::set_form(const std::string& text) {
  form_ = unpacked_form(text);
  engine_.expect_receives(form_->layout, priority_, from_.expected);
  for (const Slot& slot : slots_) {
    --slot.receive->outstanding;
    engine_.receive(from_.envelope(slot.key), form_->layout, priority_,
                    slot.receive);
  }
}

bool MessageReceiver::has_arrived(std::int32_t key, Receive& posted) {
  if (posted.outstanding > 0 && comes_over_link() &&
      links_.has_come(from_.rank, {from_.subject, key}))
    posted.outstanding = 0;
  return posted.outstanding == 0;
}

void MessageReceiver::open(std::int32_t key, Receive& arrived) {
  if (!comes_over_link()) return check(key, arrived);
  arrived.place = engine_.place();
  arrived.buffers =
      links_.take(from_.rank, {from_.subject, key}, arrived.place);
  if (!form_) form_ = links_.form(from_.rank, from_.subject);
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
