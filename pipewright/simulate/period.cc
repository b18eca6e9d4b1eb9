// Seconds per minibatch in the long run.
//
// Where every wire is direct: the largest cycle of waits (wait_graph.h). Where
// wires choose or share there is no such system. There the execution itself is
// watched until it is where it was before (recurrence.h), on a clock of whole
// ticks, so that sums are exact and "where it was" is an equality. A tick is
// some 1e-16 of the time watched: what rounding would cost anyway.
//
// For an execution to come back, nobody may run ahead without end. So a
// repetition begins when the one `lead` before is done in all its parts. The
// first lead is as far as anyone must be ahead, and longer than any way through
// the program without a repetition. If it never holds anybody back, the
// execution is the one without it, and so is its period. Otherwise parts of the
// program drift apart up to the lead, and what they do to each other on the
// wires may depend on it: then the lead is doubled, until three in a row have
// the same period. Where no three have, there is no period to be exact about.
//
// Times that differ in their last digits let workers drift apart for longer
// than anyone can watch. Then the pace decides: if it is that of the waits
// alone, or of the busiest worker, wire or pool, which no choice of wires can
// beat, and the drift is of last digits indeed, that is the period. (A pace
// alone proves nothing: a drift that can be seen may end at a wire where
// somebody is in the way.) Otherwise the answer is the pace, or a period on a
// coarser clock, and says so.

#include <algorithm>
#include <cmath>

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

bool is_same(double a, double b, double tolerance) {
  return std::abs(a - b) <= tolerance * b;
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

// A period under one bound on leads.
struct Bounded {
  Period period;
  bool was_held = false;  // somebody, so that another bound may be another way
};

// An execution on a clock of ticks, until it comes back.
struct Watched {
  Recurrence recurrence;
  bool was_held = false;
};

Watched watched(TimedCode code, int repetitions, double tick) {
  round_to(tick, code);
  Watched run;
  EngineOptions options;
  options.repetitions = repetitions;
  options.recurrence = &run.recurrence;
  run.was_held = execute(code, options).was_held;
  return run;
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
Period guessed_period(const TimedCode& code, int repetitions, double duration,
                      double pace) {
  EngineOptions options;
  options.repetitions = repetitions / 2;
  const double before =
      pace_of(code, repetitions / 2, execute(code, options).duration);
  if (!is_same(pace, before, 1e-9)) {
    const double tick = std::ldexp(tick_for(duration), 20);
    const Recurrence coarse = watched(code, repetitions, tick).recurrence;
    if (coarse.is_found()) pace = coarse.period();
  }
  return {Seconds(pace), false};
}

// Whether a coarser clock sees the same, up to what it rounds. Flows that share
// can magnify a difference with every repetition. Such an execution comes back
// only because a clock has so many ticks, and on each after another while.
bool is_on_any_clock(const TimedCode& code, int repetitions,
                     const Execution& run, double period) {
  const double tick = std::ldexp(tick_for(run.duration), 3);
  const double rounding =
      tick * static_cast<double>(run.num_ops) / (repetitions * period);
  const Recurrence coarse = watched(code, repetitions, tick).recurrence;
  return coarse.is_found() &&
         is_same(coarse.period(), period, std::max(1e-9, rounding));
}

// `least`: no execution can turn over faster. `expected`: the period under
// another bound, which a long run at this pace confirms; 0 if there is none.
// To confirm takes less than to find.
Bounded bounded_period(const TimedCode& code, double least, double expected) {
  const std::int64_t most_ops = expected > 0 ? 1'250'000 : 10'000'000;
  constexpr int kLong = 512;
  EngineOptions options;
  for (int repetitions = 64;; repetitions *= 8) {
    options.repetitions = repetitions;
    const Execution run = execute(code, options);
    if (run.duration <= 0) return {};
    const auto [recurrence, was_held] =
        watched(code, repetitions, tick_for(run.duration));
    if (recurrence.is_found())
      return {{Seconds(recurrence.period()),
               repetitions <= kLong || is_on_any_clock(code, repetitions, run,
                                                       recurrence.period())},
              was_held};
    const double pace = pace_of(code, repetitions, run.duration);
    if (is_same(pace, least, 1e-11) && recurrence.drift() <= 1e-12 * least)
      return {{Seconds(least)}, run.was_held};
    if (repetitions >= kLong && is_same(pace, expected, 1e-11))
      return {{Seconds(expected)}, true};
    if (run.num_ops * 8 > most_ops)
      return {guessed_period(code, repetitions, run.duration, pace),
              run.was_held};
  }
}

}  // namespace

Period steady_state_period(const Program& program, const Costs& costs) {
  constexpr int kMostLeads = 6, kEnough = 3;
  const TimedCode code = timed_code(program, costs);
  const double waits = period_of_waits(code);
  if (code.is_direct()) return {Seconds(waits)};
  const Loads loads = loads_of(code);
  const double least = std::max(waits, loads.busiest);
  TimedCodeOptions options;
  options.lead = most_ahead(code) + sufficient_lead(loads);
  double before = 0;
  for (int leads = 1, same = 1;; ++leads) {
    const Bounded now =
        bounded_period(timed_code(program, costs, options), least, before);
    if (!now.was_held || !now.period.is_exact) return now.period;
    const double period = now.period.seconds.value();
    same = is_same(period, before, 1e-11) ? same + 1 : 1;
    if (same == kEnough) return now.period;
    if (leads == kMostLeads) return {now.period.seconds, false};
    before = period;
    options.lead = 2 * options.lead + 1;
  }
}

}  // namespace pipewright
