#include "pipewright/simulate/history/messages_by_time.h"

#include <algorithm>

namespace pipewright {

void MessagesByTime::add(const std::vector<CarriedMessage>& messages,
                         Event event) {
  if (messages.empty()) return;
  const std::vector<CarriedMessage>* ordered = &messages;
  const auto is_earlier = [event](const CarriedMessage& a,
                                  const CarriedMessage& b) {
    return time_of(a, event) < time_of(b, event);
  };
  // Only where transfers of one channel differ in latency.
  if (!std::is_sorted(messages.begin(), messages.end(), is_earlier)) {
    sorted_.push_back(messages);
    std::stable_sort(sorted_.back().begin(), sorted_.back().end(), is_earlier);
    ordered = &sorted_.back();
  }
  heads_.push_back({time_of(ordered->front(), event), ordered->data(),
                    ordered->data() + ordered->size(), event});
}

void MessagesByTime::sort() {
  std::stable_sort(
      heads_.begin(), heads_.end(),
      [](const Head& a, const Head& b) { return a.comes_before(b); });
}

}  // namespace pipewright
