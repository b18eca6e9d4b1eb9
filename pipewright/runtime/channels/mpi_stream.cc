// Streams of messages; see mpi_stream.h.

#include "pipewright/runtime/channels/mpi_stream.h"

#include <algorithm>
#include <stdexcept>

#include "pipewright/base/check.h"
#include "pipewright/runtime/ranks/packing.h"

namespace pipewright {
namespace {

constexpr std::int32_t kKeyOfForm = 0;

std::string packed_form(const MessageLayout& layout,
                        const ParameterUses& uses) {
  Packer packer;
  packer.text(packed(layout));
  packer.numbers(uses);
  return packer.take();
}

}  // namespace

MpiEngine::Line StreamAddress::line(std::int32_t key) const {
  return {group, rank, index * window + (key % window + window) % window};
}

OutgoingStream::OutgoingStream(MpiEngine& engine, std::vector<StreamAddress> to,
                               Priority priority, std::string name)
    : engine_(engine),
      to_(std::move(to)),
      priority_(priority),
      name_(std::move(name)) {}

void OutgoingStream::prepare(const Values& values) {
  as_sent(values, engine_.sends_directly(), sent_);
}

void OutgoingStream::send(const Values& values, std::int32_t key,
                          const ParameterUses& uses,
                          const std::shared_ptr<int>& waiting) {
  if (!layout_) {
    layout_ = layout_of(values, sent_);
    uses_ = uses;
    for (const StreamAddress& to : to_) {
      engine_.send_text(to.line(kKeyOfForm), packed_form(*layout_, uses_));
      engine_.expect_sends(to.rank, *layout_, priority_, to.expected);
    }
  } else if (!has_layout(values, sent_, *layout_) || uses != uses_) {
    throw std::runtime_error(name_ + " has another shape than before");
  }
  for (const StreamAddress& to : to_)
    engine_.send(to.line(key), sent_, priority_, waiting);
  for (Tensors& tensors : sent_) tensors.clear();
}

IncomingStream::IncomingStream(MpiEngine& engine, const StreamAddress& from,
                               Priority priority)
    : engine_(engine), from_(from), priority_(priority) {}

IncomingStream::Place& IncomingStream::unused() {
  for (Place& place : places_)
    if (!place.is_used) return place;
  Place& made = places_.emplace_back();
  made.receive = std::make_shared<Receive>();
  return made;
}

MpiEngine::Receive& IncomingStream::posted(std::int32_t key) {
  for (const Place& place : places_)
    if (place.is_used && place.key == key) return *place.receive;
  Place& place = unused();
  place.is_used = true;
  place.key = key;
  Receive& receive = *place.receive;
  if (layout_) {
    engine_.receive(from_.line(key), *layout_, priority_, place.receive);
    return receive;
  }
  receive.outstanding = 1;  // for the form
  if (!std::exchange(is_expected_, true))
    engine_.expect_text(from_.line(kKeyOfForm),
                        [this](const std::string& text) { learn(text); });
  return receive;
}

// None was taken before, so places are in the order of posting.
void IncomingStream::learn(const std::string& text) {
  Unpacker unpacker(text);
  layout_ = unpacked_layout(unpacker.text());
  uses_ = unpacker.numbers<ParameterUse>();
  engine_.expect_receives(*layout_, priority_, from_.expected);
  for (const Place& place : places_) {
    --place.receive->outstanding;
    engine_.receive(from_.line(place.key), *layout_, priority_, place.receive);
  }
}

void IncomingStream::end(std::int32_t key) {
  const auto place = std::find_if(
      places_.begin(), places_.end(),
      [key](const Place& each) { return each.is_used && each.key == key; });
  PIPEWRIGHT_CHECK(place != places_.end() && place->receive->outstanding == 0,
                   "a message that has not arrived is taken");
  place->is_used = false;
}

}  // namespace pipewright
