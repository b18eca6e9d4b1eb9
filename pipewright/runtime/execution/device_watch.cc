#include "pipewright/runtime/execution/device_watch.h"

#include <utility>

#include "pipewright/base/text.h"

namespace pipewright {
namespace {

constexpr std::chrono::milliseconds kInterval{200};

std::vector<DeviceWatch::Watched> with_logs(
    std::vector<DeviceWatch::Watched> all) {
  std::erase_if(all, [](const auto& each) { return !each.device->log(); });
  return all;
}

}  // namespace

DeviceWatch::DeviceWatch(std::vector<Watched> watched, const StallHooks& stalls)
    : watched_(with_logs(std::move(watched))), stalls_(stalls) {
  if (!watched_.empty() && stalls_.give_up)
    thread_ = std::thread([this] { watch(); });
}

DeviceWatch::~DeviceWatch() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  end_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void DeviceWatch::watch() {
  std::vector<Seen> seen(watched_.size());
  std::unique_lock lock(mutex_);
  while (!end_.wait_for(lock, kInterval, [this] { return is_over_; })) {
    bool is_busy = false;
    for (std::size_t i = 0; i < watched_.size(); ++i)
      is_busy |= look(watched_[i], seen[i]);
    stalls_.on_busy(is_busy);
  }
  stalls_.on_busy(false);
}

bool DeviceWatch::look(const Watched& watched, Seen& seen) const {
  DeviceState state;
  try {
    state = watched.device->log()->state();
  } catch (const std::exception&) {
    return false;  // the worker is told, too
  }
  const Clock::time_point now = Clock::now();
  if (state.is_done || state.waits || state.num_passed != seen.num_passed) {
    seen = {state.num_passed, now};
    return !state.is_done;
  }
  const Seconds stalled(
      std::chrono::duration<double>(now - seen.since).count());
  const Seconds limit = stalls_.limit();
  if (stalled <= limit) return true;
  stalls_.give_up({ErrorCode::WorkerLost,
                   "worker " + std::to_string(watched.worker.value) + " on " +
                       watched.device->kind() + " has made no progress for " +
                       to_text(stalled) + " (limit " + to_text(limit) + ")",
                   text_with_worker(state.place),
                   "start again with --resume",
                   {}});
  return true;
}

}  // namespace pipewright
