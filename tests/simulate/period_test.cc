// The steady-state period: cycle ratios against enumeration, and against what
// long simulations tend to.

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <random>

#include "pipewright/simulate/cycle_ratio.h"
#include "pipewright/simulate/engine.h"
#include "pipewright/simulate/simulate.h"
#include "pipewright/simulate/timed_code.h"
#include "tests/simulate/chain_programs.h"
#include "tests/simulate/random_programs.h"

namespace pipewright {
namespace {

using namespace test;

// Every simple cycle, by walking on from its smallest node.
double ratio_by_enumeration(int n, const std::vector<Wait>& waits) {
  double best = 0;
  std::vector<bool> on_path(static_cast<std::size_t>(n));
  std::function<void(int, int, double, int)> walk =
      [&](int start, int node, double weight, int distance) {
        for (const Wait& wait : waits) {
          if (wait.from != node || wait.to < start) continue;
          const double w = weight + wait.weight;
          const int d = distance + wait.distance;
          if (wait.to == start) {
            if (d > 0) best = std::max(best, w / d);
          } else if (!on_path[static_cast<std::size_t>(wait.to)]) {
            on_path[static_cast<std::size_t>(wait.to)] = true;
            walk(start, wait.to, w, d);
            on_path[static_cast<std::size_t>(wait.to)] = false;
          }
        }
      };
  for (int start = 0; start < n; ++start) walk(start, start, 0, 0);
  return best;
}

TEST_CASE("the largest cycle ratio is that of all cycles enumerated") {
  std::mt19937 random(7);
  const auto pick = [&random](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int round = 0; round < 2000; ++round) {
    const int n = pick(1, 6);
    // Waits forward in a hidden order may stay in a repetition; negative
    // distances come from shifting nodes, which changes no cycle.
    std::vector<int> shift;
    for (int i = 0; i < n; ++i) shift.push_back(pick(-2, 2));
    std::vector<Wait> waits;
    const int count = pick(1, 12);
    for (int i = 0; i < count; ++i) {
      const int from = pick(0, n - 1), to = pick(0, n - 1);
      const int distance = pick(from < to ? 0 : 1, 3);
      waits.push_back({from, to, pick(0, 20) / 4.0,
                       distance + shift[static_cast<std::size_t>(to)] -
                           shift[static_cast<std::size_t>(from)]});
    }
    CHECK(largest_cycle_ratio(n, waits) ==
          doctest::Approx(ratio_by_enumeration(n, waits)).epsilon(1e-12));
  }
}

// An execution settles into a pattern that repeats after c repetitions and then
// takes c periods: some c up to 60 must show it, in the naive simulator, too.
template <typename Duration>
bool settles_at(Duration duration, int repetitions, double period) {
  const double start = duration(repetitions);
  for (int c = 1; c <= 60; ++c)
    if (std::abs(duration(repetitions + c) - start - c * period) <=
        1e-9 * start)
      return true;
  return false;
}

auto simulated(const TimedCode& code) {
  return [&code](int repetitions) {
    EngineOptions options;
    options.repetitions = repetitions;
    return execute(code, options).duration;
  };
}

TEST_CASE("long simulations tend to the period") {
  int checked = 0;
  for (unsigned seed = 1; seed <= 400; ++seed) {
    CAPTURE(seed);
    RandomKind kind;
    kind.whole_seconds = seed % 2 == 0;
    kind.blocking = seed % 3 == 0;
    kind.finite_links = seed % 5 != 0;
    kind.chained = seed % 7 == 0;
    const RandomProgram random = RandomPrograms(seed).make(kind);
    const TimedCode code = timed_code(random.program, random.costs);
    if (!code.is_direct()) continue;
    ++checked;
    const double period =
        steady_state_period(random.program, random.costs).seconds.value();
    CHECK(settles_at(simulated(code), 400, period));
  }
  CHECK(checked >= 100);
}

// The same where wires choose and share: the naive simulator at 40 repetitions
// and after, ours at 400.
TEST_CASE("the period is exact where wires choose, share and reduce") {
  int checked = 0;
  for (unsigned seed = 1; seed <= 150; ++seed) {
    CAPTURE(seed);
    RandomKind kind;
    kind.whole_seconds = seed % 3 == 0;
    kind.half_duplex = true;
    kind.shared = kind.rings = seed % 2 == 0;
    kind.blocking = seed % 5 == 0;
    kind.chained = seed % 7 == 0;
    const RandomProgram random = RandomPrograms(seed).make(kind);
    const TimedCode code = timed_code(random.program, random.costs);
    if (code.is_direct()) continue;
    ++checked;
    const Period period = steady_state_period(random.program, random.costs);
    CHECK(period.is_exact);
    const bool settles =
        settles_at(simulated(code), 400, period.seconds.value());
    CHECK(settles);
  }
  CHECK(checked >= 60);
}

// Workers that must be several repetitions ahead of others, though nothing
// takes that long; reductions that others follow late. Few of thousands are so.
TEST_CASE("whatever runs has a period") {
  const auto check = [](unsigned seed, const RandomKind& kind) {
    CAPTURE(seed);
    const RandomProgram random = RandomPrograms(seed).make(kind);
    const Period period = steady_state_period(random.program, random.costs);
    const TimedCode code = timed_code(random.program, random.costs);
    CHECK(settles_at(simulated(code), 400, period.seconds.value()));
  };
  check(2169, {.whole_seconds = true});
  for (unsigned seed : {8182u, 80009u})
    check(seed, {.shared = true,
                 .blocking = true,
                 .rings = true,
                 .chained = true,
                 .whole_seconds = true});
  for (unsigned seed : {9078u, 90050u})
    check(seed, {.shared = true, .rings = true, .chained = true});
}

// Workers that are as fast but for the last digits drift apart by a digit a
// repetition; nobody can wait until they meet again.
TEST_CASE("times that differ in their last digits have a period as well") {
  for (int stages = 2; stages <= 6; ++stages)
    for (int digits : {0, 1, 1000}) {
      CAPTURE(stages);
      CAPTURE(digits);
      Chain chain = one_f_one_b(stages, 2 * stages);
      chain.bytes = Bytes(1000);
      const Program program = chain_program(chain);
      Costs costs = even_costs(program, 0.1, 0.2, 0.001);
      for (std::size_t t = 0; t < costs.transfers.size(); ++t) {
        costs.transfers[t].bandwidth = BytesPerSecond(30000);
        costs.transfers[t].half_duplex_wire =
            static_cast<int>(t) % (stages - 1);
      }
      double factor = 1;
      for (Costs::OperationCost& operation : costs.operations) {
        for (Seconds& seconds : operation.compute) seconds = seconds * factor;
        factor += digits * 0x1p-52;
      }
      const Period period = steady_state_period(program, costs);
      CHECK(period.is_exact);
      const TimedCode code = timed_code(program, costs);
      CHECK(settles_at(simulated(code), 400, period.seconds.value()));
    }
}

}  // namespace
}  // namespace pipewright
