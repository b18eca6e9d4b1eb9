#include "pipewright/simulate/links/contended_links.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "pipewright/base/check.h"

namespace pipewright {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// The shortest time from a decision to an arrival that it causes, less what
// rounding may take from it.
double shortest_transfer(const TimedNetwork& network) {
  double shortest = kNever;
  for (const TimedTransfer& transfer : network.transfers) {
    const TimedLink* link = network.link_of(transfer);
    if (link == nullptr || link->is_direct()) continue;
    if (link->is_shared) return 0;
    shortest = std::min(shortest, transfer.seconds());
  }
  return shortest == kNever ? 0 : shortest * 0.999;
}

}  // namespace

ContendedLinks::ContendedLinks(const TimedNetwork& network, bool all)
    : network_(network),
      lookahead_(all ? 0 : shortest_transfer(network)),
      next_start_(network.links.size(), kNever),
      links_(network.links.size()),
      queue_of_(network.channels.size(), -1),
      active_(network.links.size()),
      shares_(network.pools, network.links.size()) {
  for (std::size_t l = 0; l < links_.size(); ++l) {
    links_[l].first_queue = static_cast<std::int32_t>(queues_.size());
    for (std::int32_t channel : network.links[l].channels)
      queues_.push_back({network.channels[channel].kind, channel, {}});
    links_[l].end_queue = static_cast<std::int32_t>(queues_.size());
    std::stable_sort(queues_.begin() + links_[l].first_queue, queues_.end(),
                     [](const ChannelQueue& a, const ChannelQueue& b) {
                       return std::tie(a.kind, a.channel) <
                              std::tie(b.kind, b.channel);
                     });
  }
  for (std::size_t i = 0; i < queues_.size(); ++i)
    queue_of_[queues_[i].channel] = static_cast<std::int32_t>(i);
}

void ContendedLinks::request(const Message& message) {
  const std::int32_t channel = network_.transfers[message.transfer].channel;
  const std::int32_t link = network_.channels[channel].link;
  Fifo<Waiting>& waiting = queues_[queue_of_[channel]].waiting;
  waiting.push({message.start, message.sent, message.transfer, message.key});
  if (waiting.size() > 1 || active_[link]) return;
  next_start_[link] = std::min(next_start_[link],
                               std::max(message.start, links_[link].free_at));
}

void ContendedLinks::update_next_start(std::int32_t link) {
  const LinkState& state = links_[link];
  double earliest = kNever;
  for (std::int32_t i = state.first_queue; i < state.end_queue; ++i) {
    const Fifo<Waiting>& waiting = queues_[i].waiting;
    if (!waiting.empty()) earliest = std::min(earliest, waiting.front().start);
  }
  next_start_[link] =
      earliest == kNever ? kNever : std::max(earliest, state.free_at);
}

// Four at a time, since each comparison would wait for the one before.
double ContendedLinks::earliest_start() const {
  double least[4] = {kNever, kNever, kNever, kNever};
  std::size_t i = 0;
  for (; i + 4 <= next_start_.size(); i += 4)
    for (std::size_t j = 0; j < 4; ++j)
      least[j] = std::min(least[j], next_start_[i + j]);
  for (; i < next_start_.size(); ++i)
    least[0] = std::min(least[0], next_start_[i]);
  return std::min(std::min(least[0], least[1]), std::min(least[2], least[3]));
}

bool ContendedLinks::next_round(std::vector<Message>& arrived) {
  double end = kNever;
  for (std::int32_t link : sharing_) end = std::min(end, active_[link]->end);
  const double start = earliest_start();
  if (end == kNever && start == kNever) return false;
  if (end <= start)
    end_all(end, arrived);
  else
    start_all(start, start + lookahead_, arrived);
  return true;
}

void ContendedLinks::end_all(double time, std::vector<Message>& arrived) {
  for (std::int32_t link : sharing_) {
    if (active_[link]->end != time) continue;
    Message message = active_[link]->message;
    message.end = std::max(time, message.sent);
    message.arrival =
        message.end + network_.transfers[message.transfer].latency;
    arrived.push_back(message);
    active_[link].reset();
    shares_.end(link);
    links_[link].free_at = time;
    update_next_start(link);
  }
  std::erase_if(sharing_, [this](std::int32_t link) { return !active_[link]; });
  update_rates(time);
}

// Every link whose next start is at `from`, or before `until`.
void ContendedLinks::start_all(double from, double until,
                               std::vector<Message>& arrived) {
  const std::size_t were_sharing = sharing_.size();
  for (std::size_t l = 0; l < next_start_.size(); ++l) {
    if (next_start_[l] >= until && next_start_[l] != from) continue;
    const auto link = static_cast<std::int32_t>(l);
    start(link, take_next(link, next_start_[l]), arrived);
    if (active_[l])
      next_start_[l] = kNever;
    else
      update_next_start(link);
  }
  if (sharing_.size() != were_sharing) update_rates(from);
}

Message ContendedLinks::take_next(std::int32_t link, double time) {
  const LinkState& state = links_[link];
  ChannelQueue* best = nullptr;
  for (std::int32_t i = state.first_queue; i < state.end_queue; ++i) {
    ChannelQueue& queue = queues_[i];
    if (queue.waiting.empty() || queue.waiting.front().start > time) continue;
    if (best && (best->kind != queue.kind ||
                 best->waiting.front().start <= queue.waiting.front().start))
      continue;
    best = &queue;
  }
  PIPEWRIGHT_CHECK(best != nullptr, "a link starts without a message");
  const Waiting first = best->waiting.pop();
  return {first.transfer, first.key, first.sent, time, 0, 0};
}

void ContendedLinks::start(std::int32_t link, Message message,
                           std::vector<Message>& arrived) {
  const TimedTransfer& timed = network_.transfers[message.transfer];
  if (timed.num_uses == 0) {
    message.end = end_on_link(message, timed);
    message.arrival = message.end + timed.latency;
    links_[link].free_at = message.end;
    arrived.push_back(message);
    return;
  }
  Active active;
  active.message = message;
  active.since = message.start;
  active.left = timed.bytes;
  active_[link] = active;
  sharing_.push_back(link);
  const PoolUse* uses = network_.pool_uses.data() + timed.first_use;
  shares_.start(link, timed.limit, {uses, uses + timed.num_uses});
}

// A message whose rate does not change is left untouched, so that one which
// never shared ends exactly when its bytes and its bandwidth say.
void ContendedLinks::update_rates(double time) {
  for (std::int32_t link : shares_.update_rates()) {
    Active& active = *active_[link];
    active.left =
        std::max(0.0, active.left - active.rate * (time - active.since));
    active.rate = shares_.rate(link);
    active.since = time;
    active.end = time;
    if (active.left > 0) active.end += active.left / active.rate;
  }
}

}  // namespace pipewright
