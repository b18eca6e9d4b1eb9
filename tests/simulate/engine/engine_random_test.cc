// The simulator against the naive one, on 3,000 random programs: the same end
// of every action, up to rounding.

#include <doctest/doctest.h>

#include <cmath>

#include "pipewright/simulate/engine/compile.h"
#include "pipewright/simulate/engine/engine.h"
#include "pipewright/simulate/history/spans.h"
#include "tests/simulate/naive_simulator.h"
#include "tests/simulate/random_programs.h"

namespace pipewright {
namespace {

using namespace test;

bool same(double a, double b) {
  return std::abs(a - b) <= 1e-12 * std::max({1.0, std::abs(a), std::abs(b)});
}

// Ends of a worker's own work, in order.
std::vector<double> ends_of(const std::vector<Span>& spans) {
  std::vector<double> ends;
  for (const Span& span : spans)
    if (is_compute(span.kind) || span.kind == ActionKind::Step)
      ends.push_back(span.end.value());
  return ends;
}

int differences(const RandomProgram& random, int repetitions) {
  NaiveSimulator naive(random.program, random.costs, repetitions);
  const double expected = naive.run();
  REQUIRE(naive.is_finished());
  const TimedCode code = compile(random.program, random.costs);
  EngineOptions options;
  options.repetitions = repetitions;
  options.keep_journal = true;
  const Execution execution = execute(code, options);
  int wrong = same(execution.duration, expected) ? 0 : 1;
  for (std::size_t w = 0; w < random.program.workers.size(); ++w) {
    const std::vector<double> ends =
        ends_of(spans_of(code, execution.journal, WorkerId(w)));
    REQUIRE(ends.size() == naive.ends(w).size());
    for (std::size_t i = 0; i < ends.size(); ++i)
      if (!same(ends[i], naive.ends(w)[i])) ++wrong;
  }
  options.keep_journal = false;
  CHECK(execute(code, options).duration == execution.duration);
  options.in_time_order = true;
  if (code.network.is_direct())
    CHECK(same(execute(code, options).duration, expected));
  return wrong;
}

void check_many(unsigned first_seed, int count, const RandomKind& kind) {
  for (int i = 0; i < count; ++i) {
    const unsigned seed = first_seed + static_cast<unsigned>(i);
    CAPTURE(seed);
    const RandomProgram random = RandomPrograms(seed).make(kind);
    CHECK(differences(random, i % 5) == 0);
  }
}

TEST_CASE("links that take latency only") {
  check_many(1, 300, {.finite_links = false});
  check_many(301, 100, {.finite_links = false, .whole_seconds = true});
}
TEST_CASE("links with bandwidth, several kinds on one link") {
  check_many(1001, 400, {});
  check_many(1401, 300, {.whole_seconds = true});
}
TEST_CASE("half-duplex links") {
  check_many(2001, 200, {.half_duplex = true});
  check_many(2201, 200, {.half_duplex = true, .whole_seconds = true});
}
TEST_CASE("workers that are busy while they send and receive") {
  check_many(3001, 200, {.half_duplex = true, .blocking = true});
  check_many(3201, 100, {.blocking = true, .whole_seconds = true});
}
TEST_CASE("shared resources") {
  check_many(4001, 200, {.half_duplex = true, .shared = true});
}
TEST_CASE("reductions over links that transfers and others use") {
  check_many(5001, 250, {.shared = true, .rings = true});
  check_many(
      5251, 150,
      {.half_duplex = true, .shared = true, .blocking = true, .rings = true});
  check_many(5401, 100, {.shared = true, .rings = true, .whole_seconds = true});
}
TEST_CASE("reductions that wait for the end of others") {
  check_many(6001, 150, {.chained = true});
  check_many(6151, 150, {.shared = true, .rings = true, .chained = true});
  check_many(6301, 100,
             {.shared = true,
              .blocking = true,
              .rings = true,
              .chained = true,
              .whole_seconds = true});
}

TEST_CASE("transfers that leave while they are being made") {
  check_many(7001, 300, {.streams = true});
  check_many(7301, 200, {.streams = true, .whole_seconds = true});
  check_many(7501, 200, {.half_duplex = true, .shared = true, .streams = true});
  check_many(7701, 150,
             {.half_duplex = true, .blocking = true, .streams = true});
  check_many(7851, 150,
             {.shared = true, .rings = true, .chained = true, .streams = true});
}

}  // namespace
}  // namespace pipewright
