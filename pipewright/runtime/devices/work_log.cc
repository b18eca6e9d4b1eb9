#include "pipewright/runtime/devices/work_log.h"

namespace pipewright {

void WorkLog::add(MomentPointer moment, bool is_wait) {
  const std::lock_guard lock(mutex_);
  entries_.push_back({std::move(moment), is_wait, place_});
  if (entries_.size() <= kMaxEntries) return;
  entries_.pop_front();
  ++num_passed_;
}

DeviceState WorkLog::state() {
  const std::lock_guard lock(mutex_);
  for (; !entries_.empty() && entries_.front().moment->has_passed();
       entries_.pop_front())
    ++num_passed_;
  if (entries_.empty()) return {true, false, num_passed_, Place()};
  const Entry& next = entries_.front();
  return {false, next.is_wait, num_passed_, next.place};
}

}  // namespace pipewright
