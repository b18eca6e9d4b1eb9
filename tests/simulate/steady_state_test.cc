// The steady-state period against what long simulations tend to.

#include "pipewright/simulate/steady_state.h"

#include <doctest/doctest.h>

#include <cmath>

#include "pipewright/simulate/engine/compile.h"
#include "pipewright/simulate/engine/engine.h"
#include "tests/simulate/chain_programs.h"
#include "tests/simulate/random_programs.h"

namespace pipewright {
namespace {

using namespace test;

double duration(const TimedCode& code, int repetitions) {
  EngineOptions options;
  options.repetitions = repetitions;
  return execute(code, options).duration;
}

// An execution repeats itself after c repetitions, which take c periods: some c
// up to 60 must show it.
bool settles_at(const TimedCode& code, double period) {
  const double start = duration(code, 400);
  for (int c = 1; c <= 60; ++c)
    if (std::abs(duration(code, 400 + c) - start - c * period) <= 1e-9 * start)
      return true;
  return false;
}

void check_period(const RandomProgram& random) {
  const double period =
      steady_state_period(random.program, random.costs).value();
  CHECK(settles_at(compile(random.program, random.costs), period));
}

bool is_direct(const RandomProgram& random) {
  return compile(random.program, random.costs).network.is_direct();
}

TEST_CASE("direct links: long simulations tend to the period") {
  int checked = 0;
  for (unsigned seed = 1; seed <= 400; ++seed) {
    CAPTURE(seed);
    RandomKind kind;
    kind.whole_seconds = seed % 2 == 0;
    kind.blocking = seed % 3 == 0;
    kind.finite_links = seed % 5 != 0;
    kind.chained = seed % 7 == 0;
    const RandomProgram random = RandomPrograms(seed).make(kind);
    if (!is_direct(random)) continue;
    ++checked;
    check_period(random);
  }
  CHECK(checked >= 100);
}

TEST_CASE("contended links: long simulations tend to the period") {
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
    if (is_direct(random)) continue;
    ++checked;
    check_period(random);
  }
  CHECK(checked >= 60);
}

// Workers that must be several repetitions ahead of others, though nothing
// takes that long; reductions that others follow late; two workers that drift
// for hundreds of repetitions before their order on a link changes. Few of
// thousands are so.
TEST_CASE("whatever runs has a period") {
  const auto check = [](unsigned seed, const RandomKind& kind) {
    CAPTURE(seed);
    check_period(RandomPrograms(seed).make(kind));
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
  check(112, {.half_duplex = true, .blocking = true, .chained = true});
}

// Workers that are as fast but for the last digits drift apart by a digit per
// repetition.
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
        costs.transfers[t].half_duplex_link =
            static_cast<int>(t) % (stages - 1);
      }
      double factor = 1;
      for (Costs::OperationCost& operation : costs.operations) {
        for (Seconds& seconds : operation.compute) seconds = seconds * factor;
        factor += digits * 0x1p-52;
      }
      CHECK(settles_at(compile(program, costs),
                       steady_state_period(program, costs).value()));
    }
}

}  // namespace
}  // namespace pipewright
