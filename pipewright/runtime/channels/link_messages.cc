// Notices and the tensors that follow them; see link_messages.h.

#include "pipewright/runtime/channels/link_messages.h"

#include <algorithm>

#include "pipewright/base/check.h"
#include "pipewright/runtime/channels/message_address.h"
#include "pipewright/runtime/ranks/packing.h"

namespace pipewright {
namespace {

// Those that have bytes, one after the other.
void list_tensors(const Values& values, Tensors& list) {
  list.clear();
  for (const Tensors& tensors : values)
    for (const at::Tensor& tensor : tensors)
      if (tensor.defined() && tensor.nbytes() > 0) list.push_back(tensor);
}

Values empty_values(const MessageLayout& layout, at::Device place) {
  Values values(layout.size());
  for (std::size_t v = 0; v < layout.size(); ++v)
    for (const TensorLayout& form : layout[v])
      values[v].push_back(
          form.is_defined
              ? at::empty_strided(form.sizes, form.strides,
                                  at::dtype(form.type).device(place))
              : at::Tensor());
  return values;
}

}  // namespace

// The index after those of all transfers and reductions.
MessageEngine::Envelope LinkMessages::notices_of(int rank) const {
  const auto index = static_cast<std::int32_t>(program_.transfers.size() +
                                               program_.reductions.size());
  return message_address(engine_, program_, engine_.everyone(), rank, index)
      .envelope(0);
}

LinkMessages::Outgoing& LinkMessages::outgoing(int rank) {
  Outgoing& to = outgoing_[rank];
  if (!to.link) {
    to.link = links_.to(rank);
    to.num_forgotten = to.link->num_received();
  }
  return to;
}

LinkMessages::Incoming& LinkMessages::incoming(int rank) {
  Incoming& from = incoming_[rank];
  if (!from.link) from.link = links_.from(rank);
  return from;
}

void LinkMessages::send(int to, const Name& name, const Values& values,
                        const MessageForm& form,
                        const std::shared_ptr<int>& unreceived) {
  Outgoing& out = outgoing(to);
  forget_received(out);
  list_tensors(values, list_);
  out.link->send(list_);
  list_.clear();
  out.under_way.push_back({out.link->copies() ? Values() : values, unreceived});
  if (unreceived) ++*unreceived;
  Packer packer;
  packer.number(name);
  const bool is_first = out.known.insert(name.subject).second;
  packer.text(is_first ? packed(form) : "");
  engine_.send_text(notices_of(to), packer.take());
}

void LinkMessages::forget_received(Outgoing& to) {
  if (to.under_way.empty()) return;
  for (const std::int64_t received = to.link->num_received();
       to.num_forgotten < received; ++to.num_forgotten) {
    const Sent sent = to.under_way.pop_front();
    if (sent.unreceived) --*sent.unreceived;
  }
}

void LinkMessages::make_progress() {
  for (auto& [rank, to] : outgoing_) forget_received(to);
}

bool LinkMessages::is_idle() const {
  return std::all_of(outgoing_.begin(), outgoing_.end(), [](const auto& each) {
    return each.second.under_way.empty();
  });
}

bool LinkMessages::let_write() {
  return std::all_of(outgoing_.begin(), outgoing_.end(), [](const auto& each) {
    return each.second.link->lets_write();
  });
}

bool LinkMessages::has_come(int from, const Name& name) {
  Incoming& in = incoming(from);
  const auto is_here = [&] {
    return std::any_of(
        in.notices.begin(), in.notices.end(),
        [&](const Notice& notice) { return notice.name == name; });
  };
  if (is_here()) return true;
  while (engine_.next_text(notices_of(from), text_)) {
    Unpacker unpacker(text_);
    const auto come = unpacker.number<Name>();
    const std::string form = unpacker.text();
    if (!form.empty()) in.forms[come.subject] = unpacked_form(form);
    in.notices.push_back({come, false, {}});
  }
  return is_here();
}

Values LinkMessages::take(int from, const Name& name, at::Device place) {
  Incoming& in = incoming(from);
  for (auto notice = in.notices.begin(); notice != in.notices.end(); ++notice) {
    if (!std::exchange(notice->is_received, true)) {
      notice->values =
          empty_values(in.forms.at(notice->name.subject).layout, place);
      list_tensors(notice->values, list_);
      in.link->receive(list_);
      list_.clear();
    }
    if (!(notice->name == name)) continue;
    Values values = std::move(notice->values);
    in.notices.erase(notice);
    return values;
  }
  PIPEWRIGHT_CHECK(false, "a message is taken whose notice has not come");
  return {};
}

const MessageForm& LinkMessages::form(int from, std::int32_t subject) const {
  return incoming_.at(from).forms.at(subject);
}

}  // namespace pipewright
