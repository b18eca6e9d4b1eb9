// Seconds per minibatch in the long run.
//
// Where every wire is direct: the largest cycle of waits (wait_graph.h). Where
// wires choose or share there is no such system. There the execution itself is
// watched until it is where it was before (recurrence.h), on a clock of whole
// ticks, so that sums are exact and "where it was" is an equality. A tick is
// some 1e-16 of the time watched: what rounding would cost anyway.
//
// For an execution to come back, nobody may run ahead without end. So a
// repetition begins when the one `lead` before is done in all its parts. That
// holds back nobody who would not wait for the others anyhow, sooner or later:
// the lead is as far as anyone must be ahead, and longer than any way through
// the program without a repetition.
//
// Times that differ in their last digits let workers drift apart for longer
// than anyone can watch. Then the pace decides: if it is that of the waits
// alone, or of the busiest worker, wire or pool, which no choice of wires can
// beat, that is the period. Otherwise the answer is the pace, or a period on a
// coarser clock, and says so.

#include <algorithm>
#include <cmath>
#include <optional>

#include "pipewright/base/index.h"
#include "pipewright/simulate/engine.h"
#include "pipewright/simulate/simulate.h"
#include "pipewright/simulate/timed_code.h"
#include "pipewright/simulate/wait_graph.h"

namespace pipewright {
namespace {

// Seconds of a repetition: all one after the other, and of the busiest worker,
// wire or pool alone.
struct Loads {
  double all = 0, busiest = 0;
};

Loads loads_of(const TimedCode& code) {
  std::vector<double> wires(code.wires.size(), 0), pools(code.pools.size(), 0);
  Loads loads;
  for (const TimedWorker& worker : code.workers) {
    loads.busiest = std::max(loads.busiest, worker.body_seconds);
    loads.all += worker.body_seconds;
    for (std::int32_t i = worker.begin[1]; i < worker.begin[2]; ++i) {
      const Op& op = code.ops[at(i)];
      if (op.code != OpCode::Send && op.code != OpCode::Reduce) continue;
      const TimedTransfer& timed = code.transfers[at(
          op.target + (op.code == OpCode::Reduce ? code.first_reduction : 0))];
      loads.all += timed.seconds() + code.seconds(op);
      const double share = op.code == OpCode::Reduce ? 1.0 / timed.parts : 1;
      const std::int32_t wire = code.channels[at(timed.channel)].wire;
      if (wire >= 0) wires[at(wire)] += share * timed.seconds_on_wire;
      for (std::int32_t u = 0; u < timed.num_uses; ++u) {
        const PoolUse& use = code.pool_uses[at(timed.first_use + u)];
        pools[at(use.pool)] +=
            share * timed.bytes * use.times / code.pools[at(use.pool)];
      }
    }
  }
  for (double seconds : wires) loads.busiest = std::max(loads.busiest, seconds);
  for (double seconds : pools) loads.busiest = std::max(loads.busiest, seconds);
  return loads;
}

// Repetitions in which the busiest takes as long as everything one after the
// other.
int sufficient_lead(const Loads& loads) {
  constexpr double kLongest = 1000;
  const double ratio = loads.busiest > 0 ? loads.all / loads.busiest : 1;
  return 2 + static_cast<int>(std::min(kLongest, ratio));
}

void round_to(double tick, TimedCode& code) {
  const auto round = [tick](double& seconds) {
    seconds = std::round(seconds / tick) * tick;
  };
  code.tick = tick;
  for (TimedTransfer& transfer : code.transfers) {
    round(transfer.seconds_on_wire);
    round(transfer.latency);
  }
  for (OpCost& cost : code.op_costs) round(cost.seconds);
}

// Sums of multiples of the tick are exact up to 2^53 of it.
double tick_for(double duration) {
  return std::ldexp(1.0, std::ilogb(duration) + 2 - 53);
}

// The period on a clock of ticks; none if it does not come back so soon.
std::optional<double> recurring_period(TimedCode code, int repetitions,
                                       double tick) {
  round_to(tick, code);
  Recurrence recurrence;
  EngineOptions options;
  options.repetitions = repetitions;
  options.recurrence = &recurrence;
  execute(code, options);
  if (!recurrence.is_found()) return std::nullopt;
  return recurrence.period();
}

// Seconds a repetition in the later half of a run.
double pace_of(const TimedCode& code, int repetitions, double duration) {
  EngineOptions options;
  options.repetitions = repetitions / 2;
  return (duration - execute(code, options).duration) /
         (repetitions - repetitions / 2);
}

// What never came back on the finest clock. Where the pace of one half of the
// run is that of the half before, what holds the others back does turn over
// evenly, though they may not; otherwise a coarser clock is asked.
double guessed_period(const TimedCode& code, int repetitions, double duration,
                      double pace) {
  EngineOptions options;
  options.repetitions = repetitions / 2;
  const double before =
      pace_of(code, repetitions / 2, execute(code, options).duration);
  if (std::abs(pace - before) <= 1e-9 * pace) return pace;
  return recurring_period(code, repetitions, std::ldexp(tick_for(duration), 20))
      .value_or(pace);
}

// `least`: no execution can turn over faster.
Period observed_period(const TimedCode& code, double least) {
  constexpr std::int64_t kMostOps = 10'000'000;
  EngineOptions options;
  for (int repetitions = 64;; repetitions *= 8) {
    options.repetitions = repetitions;
    const Execution run = execute(code, options);
    if (run.duration <= 0) return {};
    if (auto period =
            recurring_period(code, repetitions, tick_for(run.duration)))
      return {Seconds(*period)};
    const double pace = pace_of(code, repetitions, run.duration);
    if (std::abs(pace - least) <= 1e-11 * least) return {Seconds(least)};
    if (run.num_ops * 8 > kMostOps)
      return {Seconds(guessed_period(code, repetitions, run.duration, pace)),
              false};
  }
}

}  // namespace

Period steady_state_period(const Program& program, const Costs& costs) {
  const TimedCode code = timed_code(program, costs);
  const double waits = period_of_waits(code);
  if (code.is_direct()) return {Seconds(waits)};
  const Loads loads = loads_of(code);
  TimedCodeOptions options;
  options.lead = most_ahead(code) + sufficient_lead(loads);
  return observed_period(timed_code(program, costs, options),
                         std::max(waits, loads.busiest));
}

}  // namespace pipewright
