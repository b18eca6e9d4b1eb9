#include "pipewright/simulate/ordered_wires.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "pipewright/base/check.h"
#include "pipewright/base/index.h"

namespace pipewright {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
}  // namespace

double OrderedWires::Active::end() const {
  return left > 0 ? since + left / flow.rate : since;
}

OrderedWires::OrderedWires(const TimedCode& code)
    : code_(code),
      wires_(code.wires.size()),
      place_in_wire_(code.channels.size(), -1) {
  for (std::size_t w = 0; w < wires_.size(); ++w) {
    wires_[w].waiting.resize(code.wires[w].channels.size());
    for (std::size_t i = 0; i < code.wires[w].channels.size(); ++i)
      place_in_wire_[at(code.wires[w].channels[i])] =
          static_cast<std::int32_t>(i);
  }
}

void OrderedWires::want(const Message& message) {
  const std::int32_t channel = code_.transfers[at(message.transfer)].channel;
  const std::int32_t wire = code_.channels[at(channel)].wire;
  auto& waiting = wires_[at(wire)].waiting[at(place_in_wire_[at(channel)])];
  waiting.push(message);
  if (waiting.has_one()) queue_turn(wire);
}

// When the wire can next start something, as far as is known.
std::optional<double> OrderedWires::wanted_at(std::int32_t wire) const {
  const State& state = wires_[at(wire)];
  if (state.active) return std::nullopt;
  double earliest = kNever;
  for (const auto& waiting : state.waiting)
    if (!waiting.empty()) earliest = std::min(earliest, waiting.front().start);
  if (earliest == kNever) return std::nullopt;
  return std::max(earliest, state.free_at);
}

void OrderedWires::queue_turn(std::int32_t wire) {
  if (auto time = wanted_at(wire)) turns_.emplace(*time, wire);
}

// A turn is queued whenever a wire's next start may have changed; those that no
// longer tell the truth are passed over.
void OrderedWires::drop_stale_turns() {
  while (!turns_.empty() &&
         wanted_at(turns_.top().second) != turns_.top().first)
    turns_.pop();
}

double OrderedWires::next_completion() const {
  double next = kNever;
  for (std::int32_t wire : sharing_)
    next = std::min(next, wires_[at(wire)].active->end());
  return next;
}

bool OrderedWires::next_round(std::vector<Message>& arrived) {
  drop_stale_turns();
  const double completion = next_completion();
  const double turn = turns_.empty() ? kNever : turns_.top().first;
  if (completion == kNever && turn == kNever) return false;
  if (completion <= turn)
    complete_at(completion, arrived);
  else
    start_at(turn, arrived);
  return true;
}

void OrderedWires::complete_at(double time, std::vector<Message>& arrived) {
  std::vector<std::int32_t> done;
  for (std::int32_t wire : sharing_)
    if (wires_[at(wire)].active->end() == time) done.push_back(wire);
  for (std::int32_t wire : done) {
    State& state = wires_[at(wire)];
    Message message = state.active->message;
    message.off_wire = time;
    message.arrival = time + code_.transfers[at(message.transfer)].latency;
    arrived.push_back(message);
    state.active.reset();
    state.free_at = time;
    std::erase(sharing_, wire);
    queue_turn(wire);
  }
  share_again(time);
}

void OrderedWires::start_at(double time, std::vector<Message>& arrived) {
  deciding_.clear();
  for (; !turns_.empty() && turns_.top().first == time; drop_stale_turns()) {
    const std::int32_t wire = turns_.top().second;
    turns_.pop();
    if (wires_[at(wire)].is_deciding) continue;
    wires_[at(wire)].is_deciding = true;
    deciding_.push_back(wire);
  }
  bool sharing_changed = false;
  for (std::int32_t wire : deciding_) {
    wires_[at(wire)].is_deciding = false;
    start(wire, take(wire, time), arrived);
    sharing_changed |= wires_[at(wire)].active.has_value();
    queue_turn(wire);
  }
  if (sharing_changed) share_again(time);
}

Message OrderedWires::take(std::int32_t wire, double time) {
  State& state = wires_[at(wire)];
  using Claim = std::tuple<TransferKind, double, std::int32_t>;
  std::optional<Claim> best;
  std::size_t chosen = 0;
  for (std::size_t i = 0; i < state.waiting.size(); ++i) {
    if (state.waiting[i].empty()) continue;
    const Message& message = state.waiting[i].front();
    if (message.start > time) continue;
    const std::int32_t channel = code_.wires[at(wire)].channels[i];
    const Claim claim{code_.channels[at(channel)].kind, message.start, channel};
    if (best && *best <= claim) continue;
    best = claim;
    chosen = i;
  }
  PIPEWRIGHT_CHECK(best.has_value(), "a wire's turn without a transfer");
  Message message = state.waiting[chosen].front();
  state.waiting[chosen].pop();
  message.start = time;
  return message;
}

void OrderedWires::start(std::int32_t wire, Message message,
                         std::vector<Message>& arrived) {
  State& state = wires_[at(wire)];
  const TimedTransfer& timed = code_.transfers[at(message.transfer)];
  const Costs::TransferCost& cost =
      code_.costs->transfers[at(message.transfer)];
  if (cost.uses.empty()) {
    message.off_wire = message.start + timed.seconds_on_wire;
    message.arrival = message.off_wire + timed.latency;
    state.free_at = message.off_wire;
    arrived.push_back(message);
    return;
  }
  Active active;
  active.message = message;
  active.flow.limit = cost.bandwidth.value();
  active.flow.uses = &cost.uses;
  active.since = message.start;
  active.left = static_cast<double>(
      code_.program->transfers[at(message.transfer)].bytes.value());
  state.active = active;
  sharing_.push_back(wire);
}

// A rate that stays as it was leaves its transfer untouched, so that one which
// never shared ends exactly when its bytes at its bandwidth say.
void OrderedWires::share_again(double time) {
  std::vector<Flow*> flows;
  std::vector<double> before;
  for (std::int32_t wire : sharing_) {
    flows.push_back(&wires_[at(wire)].active->flow);
    before.push_back(flows.back()->rate);
  }
  share_fairly(flows, code_.costs->resources);
  for (std::size_t i = 0; i < sharing_.size(); ++i) {
    Active& active = *wires_[at(sharing_[i])].active;
    if (active.flow.rate == before[i] || active.since == time) continue;
    active.left =
        std::max(0.0, active.left - before[i] * (time - active.since));
    active.since = time;
  }
}

}  // namespace pipewright
