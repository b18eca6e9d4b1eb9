// auto keeps the contract of planners, and on each of its problems is at least
// as good as every other.

#include <doctest/doctest.h>

#include "tests/planners/contract.h"

namespace pipewright {

TEST_CASE("auto keeps the contract, and no planner is faster anywhere") {
  const Planner& automatic = *find_planner("auto").value();
  const Tally tally = run_contract(automatic);
  CHECK(tally.problems == kProblems);
  CHECK(tally.plans > 900);
  ContractProblems problems;
  int compared = 0, better = 0;
  for (const Seconds step : tally.steps) {
    const RandomProblem made = problems.next();
    bool beats_all = step < Seconds::max();
    for (const auto& planner : planners()) {
      if (planner.get() == &automatic) continue;
      const auto single = planner->plan(made.problem);
      if (!single) continue;
      CAPTURE(planner->name());
      CHECK(step <= single->estimate.step);
      beats_all = beats_all && step < single->estimate.step;
      ++compared;
    }
    better += beats_all;
  }
  CHECK(compared > 5 * kProblems);
  CHECK(better > 50);  // the improvement improves
}

}  // namespace pipewright
