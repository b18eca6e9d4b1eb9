// auto against every other planner on the same problems.

#include <doctest/doctest.h>

#include "tests/planners/random_problems.h"

namespace pipewright {

TEST_CASE("auto is never slower than any single planner") {
  RandomProblems random(41);
  const Planner* automatic = find_planner("auto").value();
  int compared = 0, better = 0;
  for (int i = 0; i < 25; ++i) {
    RandomProblem made = random.next();
    made.problem.method = i % 3 == 2 ? Method::Stash : Method::Sync;
    const auto best = automatic->plan(made.problem);
    bool beats_all = true;
    for (const auto& planner : planners()) {
      if (planner.get() == automatic) continue;
      const auto single = planner->plan(made.problem);
      if (!single) continue;
      CAPTURE(planner->name());
      REQUIRE(best);
      CHECK(best->estimate.step <= single->estimate.step);
      beats_all = beats_all && best->estimate.step < single->estimate.step;
      ++compared;
    }
    better += best && beats_all;
  }
  CHECK(compared > 100);
  CHECK(better > 0);  // the improvement improves
}

}  // namespace pipewright
