// Data loading: a loader that works ahead costs nothing while it keeps up, and
// sets the pace when it does not.

#include <doctest/doctest.h>

#include "pipewright/simulate/simulate.h"
#include "tests/simulate/chain_programs.h"

namespace pipewright {
namespace {

using namespace test;

Timeline loaded(const Program& program, double seconds, int minibatches = 1) {
  Costs costs = even_costs(program, 1, 2, 0);
  costs.loading.seconds = Seconds(seconds);
  SimulateOptions options;
  options.minibatches = minibatches;
  return simulate(program, costs, options);
}

TEST_CASE("one stage: the slower of loading and computing") {
  for (int m = 1; m <= 6; ++m)
    for (double seconds : {0.5, 1.0, 2.5, 3.0, 4.0, 7.5}) {
      const Program program = chain_program(one_f_one_b(1, m));
      CHECK(loaded(program, seconds).step_seconds ==
            Seconds(m * std::max(3.0, seconds)));
    }
}

TEST_CASE("a pipeline: free up to a forward's time, then its own pace") {
  for (int p = 2; p <= 6; ++p)
    for (int m = 1; m <= 10; ++m) {
      const Program program = chain_program(one_f_one_b(p, m));
      const double without = loaded(program, 0).step_seconds.value();
      CHECK(without == (m + p - 1) * 3.0);
      CHECK(loaded(program, 0.25).step_seconds.value() == without);
      CHECK(loaded(program, 1).step_seconds.value() == without);
      CHECK(loaded(program, 50).step_seconds.value() ==
            doctest::Approx(50.0 * m));
      CHECK(loaded(program, 50).duration >= Seconds(50.0 * m));
    }
}

TEST_CASE("the period is what a minibatch more takes") {
  for (double seconds : {0.5, 2.0, 3.5, 4.0, 4.125, 5.0}) {
    const Program program = chain_program(one_f_one_b(4, 8));
    const Timeline run = loaded(program, seconds, 20);
    const Timeline more = loaded(program, seconds, 21);
    CHECK(more.duration - run.duration == run.step_seconds);
    CHECK(run.workers.size() == 4);
    CHECK(run.spans.size() == 4);
  }
}

}  // namespace
}  // namespace pipewright
