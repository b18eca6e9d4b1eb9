// auto keeps the contract of planners, which takes it longest.

#include <doctest/doctest.h>

#include "tests/planners/contract.h"

namespace pipewright {

TEST_CASE("auto keeps the contract on random problems") {
  const Tally tally = run_contract(*find_planner("auto").value());
  CHECK(tally.problems == kProblems);
  CHECK(tally.plans > 900);
}

}  // namespace pipewright
