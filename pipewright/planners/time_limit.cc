#include "pipewright/planners/time_limit.h"

#include "pipewright/base/text.h"

namespace pipewright {

Error ended_before(const Problem& problem, const std::string& what) {
  if (problem.is_interrupted())
    return bad_configuration("interrupted before " + what);
  return bad_configuration(
      "the budget ended before " + what,
      problem.budget > Seconds(0)
          ? "give more than --budget " + to_text(problem.budget.value())
          : "give a larger --budget");
}

}  // namespace pipewright
