// What program.h and contended_links.h describe, written again as plainly as
// possible: time advances from event to event, and each time everything is
// tried again until nothing more happens. Shares no code with the simulator.

#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <vector>

#include "pipewright/plan/program/program.h"
#include "pipewright/simulate/costs.h"
#include "tests/simulate/naive_sharing.h"

namespace pipewright::test {

class NaiveSimulator {
 public:
  NaiveSimulator(const Program& program, const Costs& costs, int repetitions)
      : p_(program), c_(costs) {
    for (std::size_t w = 0; w < p_.workers.size(); ++w) {
      workers_.emplace_back();
      workers_[w].list =
          unrolled(p_, WorkerId(w), p_.minibatches_outside + repetitions);
      for (const Action& action : workers_[w].list)
        if (action.kind == ActionKind::Reduce)
          ++parts_[{action.reduction.value, minibatch(action)}];
    }
  }

  // The end of each work (in program order, per worker), then everything.
  double run() {
    while (true) {
      while (try_workers() || try_channels() || try_completions() ||
             try_links_and_rings()) {
      }
      const double next = next_event();
      if (std::isinf(next)) break;
      now_ = next;
    }
    double latest = 0;
    for (const Worker& worker : workers_)
      latest = std::max(latest, worker.free_at);
    for (const auto& [key, message] : messages_)
      latest = std::max(latest, message.arrival);
    for (const auto& [key, ring] : rings_) latest = std::max(latest, ring.end);
    return latest;
  }
  bool is_finished() const {
    return std::all_of(workers_.begin(), workers_.end(),
                       [](const Worker& w) { return w.next == w.list.size(); });
  }
  const std::vector<double>& ends(std::size_t w) const {
    return workers_[w].ends;
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  using MessageKey = std::pair<int, int>;                 // transfer, key
  using ChannelKey = std::tuple<TransferKind, int, int>;  // kind, from, to
  struct Message {
    double arrival = -1;  // -1: not known
    double wanted = -1;
    double made = 0;
    double left = 0, since = 0, rate = 0;  // of shared resources
  };
  struct Worker {
    std::vector<Action> list;
    std::size_t next = 0;
    std::size_t announced = 0;  // sends before this one are with their channels
    double free_at = 0;
    std::vector<double> ends;
  };
  struct Sent {
    MessageKey key;
    double from;  // may start
    double at;    // all of it is made
  };
  struct Channel {
    std::vector<Sent> sent;
    std::vector<MessageKey> posted;
    std::size_t ready = 0, started = 0;  // of those
  };
  struct LinkState {
    double free_at = 0;
    bool busy = false;
    MessageKey message;
  };

  int minibatch(const Action& action) const {
    return static_cast<int>(std::floor(double(action.microbatch.value) /
                                       double(p_.num_microbatches)));
  }
  const Transfer& transfer(int t) const { return p_.transfers[std::size_t(t)]; }
  const Costs::TransferCost& cost(int t) const {
    return c_.transfers[std::size_t(t)];
  }
  double seconds_on_link(int t) const {
    return double(transfer(t).bytes.value()) / cost(t).bandwidth.value();
  }
  // What a worker that cannot do otherwise spends on it: as if it were alone.
  double blocks(int t) const {
    return alone_on_link(t) + cost(t).latency.value();
  }
  double alone_on_link(int t) const {
    double rate = cost(t).bandwidth.value();
    for (const Link::Use& use : cost(t).uses)
      rate = std::min(
          rate, c_.resources[std::size_t(use.resource)].bandwidth.value());
    return double(transfer(t).bytes.value()) / rate;
  }
  ChannelKey channel_of(int t) const {
    return {transfer(t).kind, transfer(t).from.value, transfer(t).to.value};
  }
  // Channels count in the order in which the transfers name them.
  int channel_number(const ChannelKey& key) const {
    std::vector<ChannelKey> seen;
    for (std::size_t t = 0; t < p_.transfers.size(); ++t) {
      const ChannelKey here = channel_of(int(t));
      if (here == key) return int(seen.size());
      if (std::find(seen.begin(), seen.end(), here) == seen.end())
        seen.push_back(here);
    }
    return -1;
  }
  bool has_link(int t) const {
    return !std::isinf(cost(t).bandwidth.value()) || !cost(t).uses.empty();
  }
  std::tuple<int, int, int> link_of(int t) const {
    if (cost(t).half_duplex_link >= 0)
      return {-1, -1, cost(t).half_duplex_link};
    return {transfer(t).from.value, transfer(t).to.value, -1};
  }
  // A link with one channel and nothing shared has no choice.
  bool has_choice(int t) const {
    for (std::size_t u = 0; u < p_.transfers.size(); ++u) {
      if (!has_link(int(u)) || link_of(int(u)) != link_of(t)) continue;
      if (channel_of(int(u)) != channel_of(t) || !cost(int(u)).uses.empty())
        return true;
    }
    return false;
  }
  double blocking(std::size_t w) const {
    return w < c_.blocking.size() ? c_.blocking[w] : 0;
  }
  bool try_workers() {
    bool any = false;
    for (std::size_t w = 0; w < workers_.size(); ++w)
      while (workers_[w].next < workers_[w].list.size() &&
             workers_[w].free_at <= now_ && try_action(w))
        any = true;
    return any;
  }
  bool try_action(std::size_t w) {
    Worker& worker = workers_[w];
    const Action& action = worker.list[worker.next];
    const MessageKey key{action.transfer.value, key_of(action)};
    if (action.kind == ActionKind::Send) {
      if (worker.next >= worker.announced)
        channels_[channel_of(action.transfer.value)].sent.push_back(
            {key, now_, now_});
      if (blocking(w) > 0)
        worker.free_at = now_ + blocking(w) * blocks(action.transfer.value);
    } else if (action.kind == ActionKind::Receive) {
      channels_[channel_of(action.transfer.value)].posted.push_back(key);
    } else if (action.kind == ActionKind::Reduce) {
      if (!has_sums(w, action)) return false;
      worker.free_at = now_;
      if (--parts_[{action.reduction.value, minibatch(action)}] == 0)
        rings_[{action.reduction.value, minibatch(action)}].handed = now_;
    } else {
      return try_work(w);
    }
    ++worker.next;
    return true;
  }
  int key_of(const Action& action) const {
    return action.transfer.is_none() ? 0 : p_.key(action);
  }
  bool try_work(std::size_t w) {
    Worker& worker = workers_[w];
    double seconds = 0, receiving = 0;
    std::size_t end = worker.next;
    bool more = true;
    while (more) {
      const Action& action = worker.list[end++];
      if (!all_there(w, action, receiving)) return false;
      const OperationId o = p_.operation_id(WorkerId(w), action.stage);
      const auto& operation = c_.operations[o.index()];
      seconds += action.kind == ActionKind::Step
                     ? operation.step.value()
                     : operation.compute[int(action.kind)].value();
      more = action.joined;
    }
    if (worker.free_at + receiving > now_) {
      wake_ups_.push_back(worker.free_at + receiving);
      return false;
    }
    // Nothing else in this worker's program lies between free_at and now.
    worker.free_at = now_ + seconds;
    announce_sends(w, end);
    for (; worker.next < end; ++worker.next)
      worker.ends.push_back(worker.free_at);
    return true;
  }
  // The sends right after a work are known when it starts: what it makes and
  // streams may leave before its end, but not so early that it is not made.
  void announce_sends(std::size_t w, std::size_t end) {
    Worker& worker = workers_[w];
    double clock = worker.free_at;
    for (std::size_t i = end; i < worker.list.size(); ++i) {
      const Action& action = worker.list[i];
      if (action.kind == ActionKind::Receive) continue;
      if (action.kind != ActionKind::Send) break;
      const int t = action.transfer.value;
      double from = clock;
      for (std::size_t maker = worker.next; maker < end; ++maker)
        if (cost(t).streams && makes(worker.list[maker], action))
          from = std::max(now_, clock - alone_on_link(t));
      channels_[channel_of(t)].sent.push_back(
          {{t, key_of(action)}, from, clock});
      clock += blocking(w) * blocks(t);
      worker.announced = i + 1;
    }
  }
  bool makes(const Action& work, const Action& send) const {
    const Transfer& what = transfer(send.transfer.value);
    if (work.stage != what.made_by || work.microbatch != send.microbatch)
      return false;
    const bool is_gradient = what.kind == TransferKind::Gradient;
    switch (work.kind) {
      case ActionKind::Forward:
        return !is_gradient && !what.is_keyed_by_version() && !what.again;
      case ActionKind::Recompute:
        return what.again;
      case ActionKind::Backward:
      case ActionKind::BackwardInput:
        return is_gradient;
      default:
        return false;
    }
  }
  bool all_there(std::size_t w, const Action& action, double& receiving) const {
    if (action.read_set.is_none()) return true;
    const ReadSet& reads = p_.reads(action);
    for (TransferId t : reads.transfers) {
      int key = action.microbatch.value;
      if (transfer(t.value).is_keyed_by_version()) {
        key = action.version + offset_of(reads, t.value);
        if (key <= 0) continue;
      }
      auto found = messages_.find({t.value, key});
      if (found == messages_.end() || found->second.arrival < 0 ||
          found->second.arrival > now_)
        return false;
      if (blocking(w) > 0) receiving += blocking(w) * blocks(t.value);
    }
    return all_reduced(reads.reductions, minibatch(action));
  }
  bool all_reduced(const std::vector<ReductionId>& list, int minibatch) const {
    return std::all_of(list.begin(), list.end(), [&](ReductionId r) {
      const auto found = rings_.find({r.value, minibatch});
      return found != rings_.end() && found->second.end >= 0 &&
             found->second.end <= now_;
    });
  }
  // The Reduce of a norm waits for the sums that its worker takes part in.
  bool has_sums(std::size_t w, const Action& action) const {
    for (ReductionId sum : p_.reductions[action.reduction.index()].after)
      for (WorkerId worker : p_.reductions[sum.index()].workers)
        if (worker == WorkerId(w) && !all_reduced({sum}, minibatch(action)))
          return false;
    return true;
  }
  int offset_of(const ReadSet& reads, int t) const {
    for (const WeightRead& read : reads.weights)
      for (LayerId layer : p_.weight_group(read.group).layers)
        if (layer == transfer(t).values.at(0).layer) return read.offset;
    return 0;
  }

  // Messages that are sent, posted and behind those before them; those that
  // need no choice start at once.
  bool try_channels() {
    bool any = false;
    for (auto& [key, channel] : channels_) {
      while (channel.ready < channel.sent.size() &&
             channel.ready < channel.posted.size() &&
             channel.sent[channel.ready].from <= now_) {
        const Sent& sent = channel.sent[channel.ready++];
        messages_[sent.key].wanted = now_;
        messages_[sent.key].made = sent.at;
        any = true;
      }
      while (channel.started < channel.ready) {
        const MessageKey message = channel.sent[channel.started].key;
        const int t = message.first;
        if (has_link(t) && (has_choice(t) || links_[link_of(t)].free_at > now_))
          break;
        ++channel.started;
        const double end =
            std::max(now_ + seconds_on_link(t), messages_[message].made);
        if (has_link(t)) links_[link_of(t)].free_at = end;
        messages_[message].arrival = end + cost(t).latency.value();
        any = true;
      }
    }
    return any;
  }

  // Of all free links and rings at once: first all choose, then all start.
  bool try_links_and_rings() {
    const bool links = try_links(), rings = try_rings();
    if (links || rings) share();
    return links || rings;
  }
  // Workers that sum gradients do it for one reduction at a time: that which
  // has had all its parts for longest, or the lower one.
  bool try_rings() {
    std::map<std::vector<WorkerId>, std::pair<double, std::pair<int, int>>>
        next;
    for (const auto& [key, ring] : rings_) {
      if (ring.handed < 0 || ring.running || ring.off_links >= 0) continue;
      const std::pair claim{ring.handed, key};
      const auto known = next.try_emplace(summing(key), claim).first;
      known->second = std::min(known->second, claim);
    }
    bool any = false;
    for (const auto& [workers, claim] : next) {
      bool free = true;
      for (const auto& [key, ring] : rings_)
        if (ring.running && summing(key) == workers) free = false;
      if (!free) continue;
      NaiveRing& ring = rings_[claim.second];
      ring.running = any = true;
      ring.left = c_.reductions[std::size_t(claim.second.first)].bytes;
      ring.since = now_;
    }
    return any;
  }
  const std::vector<WorkerId>& summing(const std::pair<int, int>& key) const {
    return p_.reductions[std::size_t(key.first)].workers;
  }
  bool try_links() {
    std::map<std::tuple<int, int, int>,
             std::pair<std::tuple<TransferKind, double, int>, MessageKey>>
        best;
    for (auto& [key, channel] : channels_) {
      if (channel.started == channel.ready) continue;
      const MessageKey message = channel.sent[channel.started].key;
      const auto link = link_of(message.first);
      if (!has_choice(message.first) || links_[link].busy ||
          links_[link].free_at > now_)
        continue;
      const std::tuple claim{std::get<0>(key), messages_[message].wanted,
                             channel_number(key)};
      auto found = best.find(link);
      if (found == best.end() || claim < found->second.first)
        best[link] = {claim, message};
    }
    for (auto& [link, claim] : best) start(link, claim.second);
    return !best.empty();
  }
  void start(const std::tuple<int, int, int>& link, const MessageKey& key) {
    const int t = key.first;
    ++channels_[channel_of(t)].started;
    Message& message = messages_[key];
    if (cost(t).uses.empty()) {
      links_[link].free_at = std::max(now_ + seconds_on_link(t), message.made);
      message.arrival = links_[link].free_at + cost(t).latency.value();
      return;
    }
    links_[link].busy = true;
    links_[link].message = key;
    message.left = double(transfer(t).bytes.value());
    message.since = now_;
    message.rate = 0;
  }
  bool try_completions() {
    bool any = false;
    for (auto& [link, state] : links_) {
      if (!state.busy) continue;
      Message& message = messages_[state.message];
      if (end_of(message) > now_) continue;
      message.arrival = std::max(now_, message.made) +
                        cost(state.message.first).latency.value();
      state.busy = false;
      state.free_at = now_;
      any = true;
    }
    for (auto& [key, ring] : rings_) {
      if (!ring.running || end_of(ring) > now_) continue;
      ring.running = false;
      ring.off_links = now_;
      ring.end = now_ + c_.reductions[std::size_t(key.first)].latency.value();
      any = true;
    }
    if (any) share();
    return any;
  }

  void share() {
    std::vector<NaiveSharer> all;
    for (auto& [link, state] : links_) {
      if (!state.busy) continue;
      Message& message = messages_[state.message];
      const auto& how = cost(state.message.first);
      all.push_back({&message.left,
                     &message.since,
                     &message.rate,
                     how.bandwidth.value(),
                     {}});
      claim_naively(how.uses, c_.resources, all.back());
    }
    for (auto& [key, ring] : rings_) {
      if (!ring.running) continue;
      const auto& how = c_.reductions[std::size_t(key.first)];
      all.push_back(
          {&ring.left, &ring.since, &ring.rate, how.bandwidth.value(), {}});
      for (const auto& link : how.links)
        claim_naively(link, c_.resources, all.back());
    }
    share_naively(std::move(all), c_.resources, now_);
  }
  double next_event() {
    double next = kNever;
    const auto consider = [&](double time) {
      if (time > now_) next = std::min(next, time);
    };
    for (const Worker& worker : workers_) consider(worker.free_at);
    for (const auto& [key, channel] : channels_)
      for (std::size_t i = channel.ready; i < channel.sent.size(); ++i)
        consider(channel.sent[i].from);
    for (const auto& [key, message] : messages_) consider(message.arrival);
    for (const auto& [key, ring] : rings_) {
      consider(ring.end);
      if (ring.running) consider(end_of(ring));
    }
    for (const auto& [key, link] : links_) {
      consider(link.free_at);
      if (link.busy) consider(end_of(messages_[link.message]));
    }
    for (double time : wake_ups_) consider(time);
    wake_ups_.clear();
    return next;
  }
  const Program& p_;
  const Costs& c_;
  double now_ = 0;
  std::vector<Worker> workers_;
  std::map<ChannelKey, Channel> channels_;
  std::map<MessageKey, Message> messages_;
  std::map<std::pair<int, int>, int> parts_;
  std::map<std::pair<int, int>, NaiveRing> rings_;
  std::map<std::tuple<int, int, int>, LinkState> links_;
  std::vector<double> wake_ups_;
};

}  // namespace pipewright::test
