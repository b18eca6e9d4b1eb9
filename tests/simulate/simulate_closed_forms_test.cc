// The simulator against formulas: GPipe, 1F1B and BaPipe's schedules with equal
// stages and links that take latency only.

#include <doctest/doctest.h>

#include <algorithm>

#include "pipewright/simulate/simulate.h"
#include "pipewright/simulate/steady_state.h"
#include "tests/simulate/chain_programs.h"

namespace pipewright {
namespace {

using namespace test;

struct Times {
  double f, b, sr;
};

double step_duration(const Chain& chain, const Times& t) {
  const Program program = chain_program(chain);
  return simulate(program, even_costs(program, t.f, t.b, t.sr))
      .duration.value();
}

// Transfers that a minibatch sees exposed, in each direction (BaPipe, SNO).
int exposed(int m, int n) { return n + m - 2 - (m - 1 + n - 1) / n; }

constexpr Times kTimes[] = {
    {1, 2, 0.3}, {1, 1, 0.5}, {2, 3, 0.25}, {1, 2, 1}, {0.7, 1.9, 0.11}};

TEST_CASE("four stages, eight microbatches, as in BaPipe") {
  const Times t{1, 2, 0.3};
  CHECK(step_duration(one_f_one_b(4, 8), {1, 2, 0}) == doctest::Approx(33));
  CHECK(step_duration(one_f_one_b(4, 8), t) == doctest::Approx(37.8));
  CHECK(step_duration(one_f_one_b_so(4, 8), t) == doctest::Approx(34.8));
  const Program program = chain_program(one_f_one_b(4, 8));
  CHECK(simulate(program, even_costs(program, 1, 2, 0)).bubble ==
        doctest::Approx(3.0 / 11));
  CHECK(simulate(program, even_costs(program, 1, 2, 0.3)).bubble ==
        doctest::Approx(1 - 24 / 37.8));
}

TEST_CASE("1F1B without overlap: 1365 cases") {
  int cases = 0;
  for (const Times& t : kTimes)
    for (int n = 2; n <= 8; ++n)
      for (int m = 1; m <= 39; ++m, ++cases) {
        const double expected =
            (m + n - 1) * (t.f + t.b) + 2 * t.sr * exposed(m, n);
        CHECK(step_duration(one_f_one_b(n, m), t) ==
              doctest::Approx(expected).epsilon(1e-12));
      }
  CHECK(cases == 1365);
}

TEST_CASE("1F1B with more warm-up hides transfers that fit") {
  for (const Times& t : kTimes) {
    if (2 * t.sr > t.f + t.b) continue;
    for (int n = 2; n <= 8; ++n)
      for (int m = 1; m <= 39; ++m)
        CHECK(step_duration(one_f_one_b_so(n, m), t) ==
              doctest::Approx((m + n - 1) * (t.f + t.b) + 2 * t.sr * (n - 1))
                  .epsilon(1e-12));
  }
}

TEST_CASE("GPipe, and one microbatch under every schedule") {
  for (const Times& t : kTimes)
    for (int n = 1; n <= 8; ++n) {
      for (int m = 1; m <= 20; ++m)
        CHECK(step_duration(gpipe(n, m), t) ==
              doctest::Approx((m + n - 1) * (t.f + t.b) + 2 * t.sr * (n - 1))
                  .epsilon(1e-12));
      const double single = n * (t.f + t.b) + 2 * (n - 1) * t.sr;
      for (const Chain& chain :
           {gpipe(n, 1), one_f_one_b(n, 1), one_f_one_b_so(n, 1)})
        CHECK(step_duration(chain, t) ==
              doctest::Approx(single).epsilon(1e-12));
    }
}

TEST_CASE("a synchronous body repeats at its own duration") {
  for (int n = 1; n <= 6; ++n)
    for (int m = 1; m <= 12; ++m) {
      const Program program = chain_program(one_f_one_b(n, m));
      const Costs costs = even_costs(program, 1, 2, 0.3);
      const double once = simulate(program, costs).duration.value();
      CHECK(steady_state_period(program, costs).value() ==
            doctest::Approx(once).epsilon(1e-12));
      SimulateOptions five;
      five.minibatches = 5;
      CHECK(simulate(program, costs, five).duration.value() ==
            doctest::Approx(5 * once).epsilon(1e-12));
    }
}

}  // namespace
}  // namespace pipewright
