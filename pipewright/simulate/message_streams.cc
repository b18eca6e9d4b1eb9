#include "pipewright/simulate/message_streams.h"

#include <algorithm>

namespace pipewright {

void MessageStreams::add(const std::vector<Carried>& messages, Moment moment) {
  if (messages.empty()) return;
  const std::vector<Carried>* ordered = &messages;
  const auto is_earlier = [moment](const Carried& a, const Carried& b) {
    return time_of(a, moment) < time_of(b, moment);
  };
  // Only where transfers of one channel differ in latency.
  if (!std::is_sorted(messages.begin(), messages.end(), is_earlier)) {
    sorted_.push_back(messages);
    std::stable_sort(sorted_.back().begin(), sorted_.back().end(), is_earlier);
    ordered = &sorted_.back();
  }
  heads_.push_back({time_of(ordered->front(), moment), ordered->data(),
                    ordered->data() + ordered->size(), moment});
}

void MessageStreams::sort() {
  std::stable_sort(
      heads_.begin(), heads_.end(),
      [](const Head& a, const Head& b) { return a.comes_before(b); });
}

}  // namespace pipewright
