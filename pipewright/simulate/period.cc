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
// the lead is longer than any way through the program without a repetition.

#include <algorithm>
#include <cmath>

#include "pipewright/base/index.h"
#include "pipewright/simulate/engine.h"
#include "pipewright/simulate/simulate.h"
#include "pipewright/simulate/timed_code.h"
#include "pipewright/simulate/wait_graph.h"

namespace pipewright {
namespace {

// Repetitions in which the slowest worker or wire takes as long as everything
// one after the other.
int sufficient_lead(const TimedCode& code) {
  std::vector<double> wires(code.wires.size(), 0);
  double busiest = 0, all = 0;
  for (const TimedWorker& worker : code.workers) {
    busiest = std::max(busiest, worker.body_seconds);
    all += worker.body_seconds;
    for (std::int32_t i = worker.begin[1]; i < worker.begin[2]; ++i) {
      const Op& op = code.ops[at(i)];
      if (op.code != OpCode::Send && op.code != OpCode::Reduce) continue;
      const TimedTransfer& timed = code.transfers[at(
          op.target + (op.code == OpCode::Reduce ? code.first_reduction : 0))];
      all += timed.seconds() + code.seconds(op);
      const std::int32_t wire = code.channels[at(timed.channel)].wire;
      if (wire >= 0) wires[at(wire)] += timed.seconds_on_wire;
    }
  }
  for (double wire : wires) busiest = std::max(busiest, wire);
  constexpr double kLongest = 1000;
  return 2 +
         static_cast<int>(busiest > 0 ? std::min(kLongest, all / busiest) : 1);
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
  for (double& seconds : code.durations) round(seconds);
}

// Sums of multiples of the tick are exact up to 2^53 of it.
double tick_for(double duration) {
  return std::ldexp(1.0, std::ilogb(duration) + 2 - 53);
}

double observed_period(const Program& program, const Costs& costs, int lead) {
  constexpr std::int64_t kMostOps = 30'000'000;
  TimedCode code = timed_code(program, costs, lead);
  EngineOptions options;
  double average = 0;
  for (options.repetitions = 64;; options.repetitions *= 8) {
    options.recurrence = nullptr;
    TimedCode exact = code;
    const Execution execution = execute(code, options);
    if (execution.duration <= 0) return 0;
    round_to(tick_for(execution.duration), exact);
    Recurrence recurrence;
    options.recurrence = &recurrence;
    execute(exact, options);
    if (recurrence.is_found()) return recurrence.period();
    average = execution.duration / options.repetitions;
    if (execution.num_ops * 8 > kMostOps) return average;
  }
}

}  // namespace

Seconds steady_state_period(const Program& program, const Costs& costs) {
  const TimedCode code = timed_code(program, costs);
  if (code.is_direct()) return Seconds(period_of_waits(code));
  return Seconds(observed_period(program, costs, sufficient_lead(code)));
}

}  // namespace pipewright
