#include "pipewright/simulate/ordered_wires.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "pipewright/base/check.h"
#include "pipewright/base/index.h"

namespace pipewright {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// The shortest time from a decision to an arrival that it causes, less what
// rounding may take from it.
double shortest_transfer(const TimedCode& code) {
  double shortest = kNever;
  for (const TimedTransfer& transfer : code.transfers) {
    const std::int32_t wire = code.channels[at(transfer.channel)].wire;
    if (wire < 0 || code.wires[at(wire)].is_direct()) continue;
    if (code.wires[at(wire)].shares) return 0;
    shortest = std::min(shortest, transfer.seconds());
  }
  return shortest == kNever ? 0 : shortest * 0.999;
}

}  // namespace

OrderedWires::OrderedWires(const TimedCode& code, bool all)
    : code_(code),
      lookahead_(all ? 0 : shortest_transfer(code)),
      turns_(code.wires.size(), kNever),
      wires_(code.wires.size()),
      claimant_of_(code.channels.size(), -1),
      active_(code.wires.size()),
      shares_(code.pools, code.wires.size()) {
  for (std::size_t w = 0; w < wires_.size(); ++w) {
    wires_[w].first_claimant = static_cast<std::int32_t>(claimants_.size());
    for (std::int32_t channel : code.wires[w].channels)
      claimants_.push_back({code.channels[at(channel)].kind, channel, {}});
    wires_[w].end_claimant = static_cast<std::int32_t>(claimants_.size());
    std::stable_sort(
        claimants_.begin() + wires_[w].first_claimant, claimants_.end(),
        [](const Claimant& a, const Claimant& b) {
          return std::tie(a.kind, a.channel) < std::tie(b.kind, b.channel);
        });
  }
  for (std::size_t i = 0; i < claimants_.size(); ++i)
    claimant_of_[at(claimants_[i].channel)] = static_cast<std::int32_t>(i);
}

void OrderedWires::want(const Message& message) {
  const std::int32_t channel = code_.transfers[at(message.transfer)].channel;
  const std::int32_t wire = code_.channels[at(channel)].wire;
  Queue& waiting = claimants_[at(claimant_of_[at(channel)])].waiting;
  waiting.push({message.start, message.sent, message.transfer, message.key});
  if (!waiting.has_one() || active_[at(wire)]) return;
  turns_[at(wire)] = std::min(
      turns_[at(wire)], std::max(message.start, wires_[at(wire)].free_at));
}

void OrderedWires::queue_turn(std::int32_t wire) {
  const State& state = wires_[at(wire)];
  double earliest = kNever;
  for (std::int32_t i = state.first_claimant; i < state.end_claimant; ++i) {
    const Queue& waiting = claimants_[at(i)].waiting;
    if (!waiting.empty()) earliest = std::min(earliest, waiting.front().start);
  }
  turns_[at(wire)] =
      earliest == kNever ? kNever : std::max(earliest, state.free_at);
}

// Four at a time, since each comparison would wait for the one before.
double OrderedWires::next_turn() const {
  double least[4] = {kNever, kNever, kNever, kNever};
  std::size_t i = 0;
  for (; i + 4 <= turns_.size(); i += 4)
    for (std::size_t j = 0; j < 4; ++j)
      least[j] = std::min(least[j], turns_[i + j]);
  for (; i < turns_.size(); ++i) least[0] = std::min(least[0], turns_[i]);
  return std::min(std::min(least[0], least[1]), std::min(least[2], least[3]));
}

bool OrderedWires::next_round(std::vector<Message>& arrived) {
  double completion = kNever;
  for (std::int32_t wire : sharing_)
    completion = std::min(completion, active_[at(wire)]->end);
  const double turn = next_turn();
  if (completion == kNever && turn == kNever) return false;
  if (completion <= turn)
    complete_at(completion, arrived);
  else
    start_all(turn, turn + lookahead_, arrived);
  return true;
}

void OrderedWires::complete_at(double time, std::vector<Message>& arrived) {
  for (std::int32_t wire : sharing_) {
    if (active_[at(wire)]->end != time) continue;
    Message message = active_[at(wire)]->message;
    message.off_wire = time;
    message.arrival = time + code_.transfers[at(message.transfer)].latency;
    arrived.push_back(message);
    active_[at(wire)].reset();
    shares_.end(wire);
    wires_[at(wire)].free_at = time;
    queue_turn(wire);
  }
  std::erase_if(sharing_,
                [this](std::int32_t wire) { return !active_[at(wire)]; });
  share_again(time);
}

// All turns from `from` and before `until`, at least those at `from`.
void OrderedWires::start_all(double from, double until,
                             std::vector<Message>& arrived) {
  const std::size_t were_sharing = sharing_.size();
  for (std::size_t w = 0; w < turns_.size(); ++w) {
    if (turns_[w] >= until && turns_[w] != from) continue;
    const auto wire = static_cast<std::int32_t>(w);
    start(wire, take(wire, turns_[w]), arrived);
    if (active_[w])
      turns_[w] = kNever;
    else
      queue_turn(wire);
  }
  if (sharing_.size() != were_sharing) share_again(from);
}

Message OrderedWires::take(std::int32_t wire, double time) {
  const State& state = wires_[at(wire)];
  Claimant* best = nullptr;
  for (std::int32_t i = state.first_claimant; i < state.end_claimant; ++i) {
    Claimant& claimant = claimants_[at(i)];
    if (claimant.waiting.empty() || claimant.waiting.front().start > time)
      continue;
    if (best && (best->kind != claimant.kind ||
                 best->waiting.front().start <= claimant.waiting.front().start))
      continue;
    best = &claimant;
  }
  PIPEWRIGHT_CHECK(best != nullptr, "a wire's turn without a transfer");
  const Waiting& first = best->waiting.front();
  const Message message{first.transfer, first.key, first.sent, time, 0, 0};
  best->waiting.pop();
  return message;
}

void OrderedWires::start(std::int32_t wire, Message message,
                         std::vector<Message>& arrived) {
  const TimedTransfer& timed = code_.transfers[at(message.transfer)];
  if (timed.num_uses == 0) {
    message.off_wire = message.start + timed.seconds_on_wire;
    message.arrival = message.off_wire + timed.latency;
    wires_[at(wire)].free_at = message.off_wire;
    arrived.push_back(message);
    return;
  }
  Active active;
  active.message = message;
  active.since = message.start;
  active.left = timed.bytes;
  active_[at(wire)] = active;
  sharing_.push_back(wire);
  shares_.begin(wire, timed.limit,
                {code_.pool_uses.data() + timed.first_use, at(timed.num_uses)});
}

// A rate that stays as it was leaves its transfer untouched, so that one which
// never shared ends exactly when its bytes at its bandwidth say.
void OrderedWires::share_again(double time) {
  for (std::int32_t wire : shares_.settle()) {
    Active& active = *active_[at(wire)];
    active.left =
        std::max(0.0, active.left - active.rate * (time - active.since));
    active.rate = shares_.rate(wire);
    active.since = time;
    active.end = end_of(active);
  }
}

double OrderedWires::end_of(const Active& active) const {
  if (active.left <= 0) return active.since;
  return active.since + active.left / active.rate;
}

}  // namespace pipewright
