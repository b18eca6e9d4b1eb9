#include "pipewright/simulate/recurrence.h"

#include <algorithm>
#include <cmath>

#include "pipewright/base/index.h"

namespace pipewright {
namespace {

// The state of an engine as numbers that do not depend on when it is.
class MomentOfEngine {
 public:
  MomentOfEngine(const TimedCode& code, const EngineState& engine,
                 int repetition, std::vector<double>& state)
      : code_(code),
        engine_(engine),
        repetition_(repetition),
        origin_(engine.workers.front().clock),
        state_(state) {
    earliest_ = origin_;
    for (const WorkerState& worker : engine.workers)
      earliest_ = std::min(earliest_, worker.clock);
  }

  void write(const OrderedWires& wires) {
    state_.clear();
    for (const WorkerState& worker : engine_.workers) {
      add(worker.next_op);
      add(worker.repetition - repetition_);
      add_time(worker.clock);
    }
    for (const TimedTransfer& transfer : code_.transfers) add(transfer);
    for (std::size_t r = 0; r < engine_.reductions.size(); ++r)
      add_reduction(r);
    for (const ChannelState& channel : engine_.channels) add(channel);
    wires.append_state(origin_, earliest_, repetition_, state_);
  }

 private:
  void add(std::int32_t number) { state_.push_back(number); }
  void add_time(double time) { state_.push_back(time - origin_); }

  // Nobody asks any more whether something was there before this.
  double reader_clock(const TimedTransfer& transfer) const {
    const TimedChannel& channel = code_.channels[at(transfer.channel)];
    return channel.is_of_reduction() ? earliest_
                                     : engine_.workers[at(channel.to)].clock;
  }

  void add(const TimedTransfer& transfer) {
    const std::int32_t base = repetition_ * code_.advance_of(transfer.base);
    const double clock = reader_clock(transfer);
    for (std::int32_t i = 0; i <= transfer.mask; ++i) {
      const std::int32_t place = transfer.ring + ((i + base) & transfer.mask);
      const Slot& slot = engine_.slots[at(place)];
      const bool is_alive =
          slot.key != kNoKey && slot.key - base >= transfer.read_from;
      add(is_alive ? slot.key - base : kNoKey);
      add_time(is_alive ? std::max(slot.time, clock) : origin_);
    }
  }

  void add_reduction(std::size_t number) {
    const TimedTransfer& timed =
        code_.transfers[at(code_.first_reduction) + number];
    const std::int32_t base = repetition_ * code_.advance_of(timed.base);
    const auto& open = engine_.reductions[number];
    add(static_cast<std::int32_t>(open.size()));
    for (const auto& [key, state] : open) {
      add(key - base);
      add(state.parts);
      add_time(state.time);
    }
  }

  void add(const ChannelState& channel) {
    add_time(std::max(channel.ready, earliest_));
    add(static_cast<std::int32_t>(channel.pending.size()));
    add(channel.pending_are_sends ? 1 : 0);
    for (std::size_t i = 0; i < channel.pending.size(); ++i) {
      const Pending& pending = channel.pending[i];
      add(pending.transfer);
      add(pending.key -
          repetition_ *
              code_.advance_of(code_.transfers[at(pending.transfer)].base));
      add_time(pending.time);
    }
  }

  const TimedCode& code_;
  const EngineState& engine_;
  const int repetition_;
  const double origin_;
  double earliest_;
  std::vector<double>& state_;
};

// Keys and places that are not the same are 1 apart, or more.
double distance(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i]) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

}  // namespace

bool Recurrence::sees(const TimedCode& code, const EngineState& engine,
                      const OrderedWires& wires, int repetition) {
  MomentOfEngine(code, engine, repetition, now_).write(wires);
  const double clock = engine.workers.front().clock;
  const double far = distance(now_, kept_);
  if (far == 0) {
    found_ = true;
    period_ = (clock - kept_at_) / (repetition - kept_repetition_);
    return true;
  }
  drift_ = std::min(drift_, far / (repetition - kept_repetition_));
  if (repetition >= next_kept_) {
    kept_ = now_;
    kept_at_ = clock;
    kept_repetition_ = repetition;
    next_kept_ = 2 * repetition;
  }
  return false;
}

}  // namespace pipewright
